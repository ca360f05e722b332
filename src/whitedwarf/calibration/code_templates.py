"""Pieces of programs in many languages, with places for names and numbers, and one place for a mistake each.

«fn» a function, «ty» a type, «x» «y» things, «n» «m» numbers, «note» a sentence, names spelt as the language does it;
⟦right|wrong⟧ is the place for a mistake.
"""

from typing import NamedTuple


class Tongue(NamedTuple):
    """A programming language: suffix of its files, how functions and types are spelt, line comment, a test command."""

    suffix: str
    functions: str  # snake, camel or pascal
    comment: str
    test: str
    templates: tuple[str, ...]


LANGUAGES: dict[str, Tongue] = {
    "Python": Tongue(
        "py",
        "snake",
        "#",
        "pytest -q",
        (
            '''def «fn»(«x»s: list[int], limit: int = «n») -> list[int]:
    """«note»"""
    result = []
    for value in «x»s:
        if value ⟦<=|<⟧ limit:
            result.append(value * «m»)
    return result
''',
            '''@dataclass(frozen=True)
class «ty»:
    """«note»"""

    name: str
    «x»: float = «n».0

    def «fn»(self, «y»: float) -> float:
        if «y» == 0:
            raise ValueError("«y» must not be zero")
        return self.«x» ⟦/|*⟧ «y»
''',
            '''async def «fn»(session, url: str, attempts: int = «m») -> dict:
    """«note»"""
    for attempt in range(attempts):
        try:
            async with session.get(url, timeout=«n») as response:
                response.raise_for_status()
                return await response.json()
        except TimeoutError:
            if attempt ⟦==|!=⟧ attempts - 1:
                raise
            await asyncio.sleep(2**attempt)
    raise RuntimeError("unreachable")
''',
            '''def «fn»(path: Path) -> Counter[str]:
    """«note»"""
    counts: Counter[str] = Counter()
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, ⟦1|0⟧):
            fields = line.rstrip("\\n").split("\\t")
            if len(fields) != «m»:
                raise ValueError(f"{path}:{number}: expected «m» fields, got {len(fields)}")
            counts[fields[0]] += 1
    return counts
''',
        ),
    ),
    "JavaScript": Tongue(
        "js",
        "camel",
        "//",
        "npm test",
        (
            """// «note»
export function «fn»(«x»s, limit = «n») {
  return «x»s
    .filter((item) => item.«y» ⟦!==|===⟧ undefined)
    .sort((a, b) => b.«y» - a.«y»)
    .slice(0, limit);
}
""",
            """export class «ty» {
  #cache = new Map();

  // «note»
  async «fn»(key) {
    if (⟦this.#cache.has(key)|!this.#cache.has(key)⟧) {
      return this.#cache.get(key);
    }
    const response = await fetch(`/api/«x»/${encodeURIComponent(key)}?limit=«n»`);
    if (!response.ok) throw new Error(`«x» ${key}: ${response.status}`);
    const value = await response.json();
    this.#cache.set(key, value);
    return value;
  }
}
""",
            """// «note»
const «fn» = (fn, waitMs = «n») => {
  let timer = null;
  return (...args) => {
    ⟦clearTimeout(timer)|clearInterval(waitMs)⟧;
    timer = setTimeout(() => fn(...args), waitMs);
  };
};

module.exports = { «fn» };
""",
        ),
    ),
    "TypeScript": Tongue(
        "ts",
        "camel",
        "//",
        "npx vitest run",
        (
            """export interface «ty» {
  readonly id: string;
  «x»: number;
  «y»?: string;
}

// «note»
export function «fn»(items: readonly «ty»[]): Map<string, «ty»[]> {
  const groups = new Map<string, «ty»[]>();
  for (const item of items) {
    const key = item.«y» ⟦??|&&⟧ "none";
    const group = groups.get(key) ?? [];
    group.push(item);
    groups.set(key, group);
  }
  return groups;
}
""",
            """type Result<T> = { ok: true; value: T } | { ok: false; error: string };

// «note»
export function «fn»(text: string): Result<number> {
  const value = Number.parseInt(text, ⟦10|2⟧);
  if (Number.isNaN(value)) return { ok: false, error: `«x»: not a number: ${text}` };
  return value > «n» ? { ok: false, error: `«x»: above «n»` } : { ok: true, value };
}
""",
        ),
    ),
    "Rust": Tongue(
        "rs",
        "snake",
        "//",
        "cargo test",
        (
            """/// «note»
pub fn «fn»(«x»: &[u32], limit: usize) -> Option<u32> {
    «x».iter().copied().filter(|value| value % «m» ⟦== 0|!= 0⟧).take(limit).max()
}
""",
            """#[derive(Debug, Clone, Default)]
pub struct «ty» {
    «x»s: HashMap<String, Vec<u64>>,
}

impl «ty» {
    /// «note»
    pub fn «fn»(&mut self, key: &str, value: u64) -> Result<usize, Error> {
        let entries = self.«x»s.entry(key.to_owned()).or_default();
        if entries.len() ⟦>=|<⟧ «n» {
            return Err(Error::TooMany { key: key.to_owned(), limit: «n» });
        }
        entries.push(value);
        Ok(entries.len())
    }
}
""",
            """/// «note»
pub fn «fn»<R: BufRead>(reader: R) -> io::Result<Vec<(String, i64)>> {
    let mut «x»s = Vec::with_capacity(«n»);
    for line in reader.lines() {
        let line = line?;
        let Some((name, value)) = line.split_once('⟦=|:⟧') else { continue };
        if let Ok(value) = value.trim().parse() {
            «x»s.push((name.trim().to_string(), value));
        }
    }
    Ok(«x»s)
}
""",
        ),
    ),
    "Go": Tongue(
        "go",
        "camel",
        "//",
        "go test ./...",
        (
            """// «fn»: «note»
func «fn»(ctx context.Context, «x»s []string, workers int) (map[string]int, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	var mu sync.Mutex
	counts := make(map[string]int, len(«x»s))
	for _, «y» := range «x»s {
		group.Go(func() error {
			n, err := measure(ctx, «y»)
			if err ⟦!=|==⟧ nil {
				return fmt.Errorf("«y» %q: %w", «y», err)
			}
			mu.Lock()
			defer mu.Unlock()
			counts[«y»] += n
			return nil
		})
	}
	return counts, group.Wait()
}
""",
            """type «ty» struct {
	mu    sync.RWMutex
	items map[string]time.Time
	ttl   time.Duration
}

// «fn»: «note»
func (s *«ty») «fn»(key string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, ok := s.items[key]
	return ok && time.Since(at) ⟦<|>⟧ s.ttl*«m»
}
""",
        ),
    ),
    "C": Tongue(
        "c",
        "snake",
        "//",
        "make check",
        (
            """/* «note» */
size_t «fn»(const uint8_t *«x», size_t length, uint8_t needle) {
    size_t count = 0;
    for (size_t i = 0; i ⟦<|<=⟧ length; ++i) {
        if («x»[i] == needle) ++count;
    }
    return count;
}
""",
            """struct «x»_node {
    struct «x»_node *next;
    int value;
};

/* «note» */
int «fn»(struct «x»_node **head, int value) {
    struct «x»_node *node = malloc(sizeof *node);
    if (⟦node == NULL|node != NULL⟧) return -ENOMEM;
    node->value = value % «n»;
    node->next = *head;
    *head = node;
    return 0;
}
""",
        ),
    ),
    "C++": Tongue(
        "cpp",
        "camel",
        "//",
        "ctest --output-on-failure",
        (
            """// «note»
template <typename T>
class «ty» {
public:
    explicit «ty»(std::size_t capacity) : capacity_(capacity) {}

    bool «fn»(T value) {
        std::scoped_lock lock(mutex_);
        if (items_.size() ⟦>=|>⟧ capacity_) return false;
        items_.push_back(std::move(value));
        ready_.notify_one();
        return true;
    }

private:
    std::size_t capacity_;
    std::deque<T> items_;
    std::mutex mutex_;
    std::condition_variable ready_;
};
""",
            """// «note»
std::vector<int> «fn»(std::span<const int> «x»s) {
    std::vector<int> sums(«x»s.size() + 1);
    for (std::size_t i = 0; i < «x»s.size(); ++i) sums[i + 1] = sums[i] ⟦+|-⟧ «x»s[i];
    return sums;
}
""",
        ),
    ),
    "Java": Tongue(
        "java",
        "camel",
        "//",
        "mvn -q test",
        (
            """/** «note» */
public record «ty»(String name, int «x», Optional<String> «y») {
    public «ty» {
        Objects.requireNonNull(name);
        if («x» ⟦< 0|> 0⟧) throw new IllegalArgumentException("«x» is negative: " + «x»);
    }

    public static Map<String, Integer> «fn»(Collection<«ty»> all) {
        return all.stream().collect(Collectors.toMap(«ty»::name, «ty»::«x», Integer::sum, TreeMap::new));
    }
}
""",
            """/** «note» */
public int «fn»(int[] «x», int key) {
    int low = 0, high = «x».length - 1;
    while (low ⟦<=|<⟧ high) {
        int middle = (low + high) >>> 1;
        if («x»[middle] == key) return middle;
        if («x»[middle] < key) low = middle + 1;
        else high = middle - 1;
    }
    return -1;
}
""",
        ),
    ),
    "C#": Tongue(
        "cs",
        "pascal",
        "//",
        "dotnet test",
        (
            """/// <summary>«note»</summary>
public sealed class «ty»(ILogger<«ty»> logger)
{
    private readonly Dictionary<string, decimal> _«x»s = [];

    public decimal «fn»(string key, decimal amount)
    {
        _«x»s.TryGetValue(key, out var before);
        var after = before ⟦+|-⟧ amount;
        if (after > «n»m) logger.LogWarning("{Key} is above «n»: {Amount}", key, after);
        return _«x»s[key] = after;
    }
}
""",
        ),
    ),
    "Ruby": Tongue(
        "rb",
        "snake",
        "#",
        "bundle exec rspec",
        (
            """# «note»
class «ty»
  def initialize(«x»s)
    @«x»s = «x»s
  end

  def «fn»(limit: «n»)
    @«x»s.group_by(&:«y»).transform_values(&:count).select { |_, count| count ⟦>|<⟧ limit }
  end
end
""",
        ),
    ),
    "Kotlin": Tongue(
        "kt",
        "camel",
        "//",
        "./gradlew test",
        (
            """/** «note» */
data class «ty»(val id: Long, val «x»: String, val «y»: Int = «n»)

fun List<«ty»>.«fn»(minimum: Int): Map<String, Int> =
    filter { it.«y» ⟦>=|<=⟧ minimum }
        .groupingBy { it.«x» }
        .eachCount()
        .toSortedMap()
""",
        ),
    ),
    "Swift": Tongue(
        "swift",
        "camel",
        "//",
        "swift test",
        (
            """/// «note»
struct «ty»: Codable, Equatable {
    var «x»: [String: Int] = [:]

    mutating func «fn»(_ key: String) throws -> Int {
        guard let count = «x»[key], count ⟦>|<⟧ 0 else {
            throw «ty»Error.missing(key)
        }
        «x»[key] = count - 1
        return count - 1
    }
}
""",
        ),
    ),
    "SQL": Tongue(
        "sql",
        "snake",
        "--",
        "psql -f tests/run.sql",
        (
            """-- «note»
WITH recent AS (
    SELECT «x»_id, sum(amount) AS total, count(*) AS entries
    FROM «y»s
    WHERE created_at ⟦>=|<⟧ now() - interval '«n» days'
    GROUP BY «x»_id
)
SELECT t.id, t.name, coalesce(r.total, 0) AS total
FROM «x»s AS t
LEFT JOIN recent AS r ON r.«x»_id = t.id
WHERE coalesce(r.entries, 0) < «m»
ORDER BY total DESC, t.name;
""",
            """-- «note»
CREATE TABLE IF NOT EXISTS «x»s (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL CHECK (length(name) <= «n»),
    «y»_id     bigint REFERENCES «y»s (id) ON DELETE ⟦CASCADE|NOTHING⟧,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX «fn»_idx ON «x»s («y»_id, created_at DESC);
""",
        ),
    ),
    "Bash": Tongue(
        "sh",
        "snake",
        "#",
        "bats tests",
        (
            """#!/usr/bin/env bash
# «note»
set -euo pipefail

«fn»() {
    local folder="$1" keep="${2:-«n»}"
    find "$folder" -maxdepth 1 -name '«x»-*.tar.gz' -printf '%T@ %p\\n' |
        sort ⟦-rn|-n⟧ | tail -n "+$((keep + 1))" | cut -d' ' -f2- |
        while IFS= read -r file; do
            printf 'removing %s\\n' "$file"
            rm -- "$file"
        done
}

«fn» "$@"
""",
        ),
    ),
    "Haskell": Tongue(
        "hs",
        "camel",
        "--",
        "cabal test",
        (
            """-- | «note»
«fn» :: Ord k => (a -> k) -> [a] -> Map k [a]
«fn» key = foldr insert Map.empty
  where
    insert «x» = Map.insertWith (⟦++|flip (++)⟧) (key «x») [«x»]

limit :: Int
limit = «n»
""",
        ),
    ),
    "Lua": Tongue(
        "lua",
        "snake",
        "--",
        "busted",
        (
            """-- «note»
local M = {}

function M.«fn»(«x»s, limit)
  local result = {}
  for index, «y» in ipairs(«x»s) do
    if index ⟦>|<⟧ (limit or «n») then break end
    result[#result + 1] = tostring(«y»):gsub("%s+", " ")
  end
  return result
end

return M
""",
        ),
    ),
    "PHP": Tongue(
        "php",
        "camel",
        "//",
        "vendor/bin/phpunit",
        (
            """<?php

declare(strict_types=1);

// «note»
final class «ty»
{
    public function __construct(private array $«x»s = []) {}

    public function «fn»(string $key, int $default = «n»): int
    {
        return ⟦$this->«x»s[$key] ?? $default|$this->«x»s[$default]⟧;
    }
}
""",
        ),
    ),
    "HTML": Tongue(
        "html",
        "camel",
        "//",
        "npx html-validate .",
        (
            """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>«ty»</title>
    <link rel="stylesheet" href="/«x».css">
  </head>
  <body>
    <!-- «note» -->
    <form id="«fn»" method="⟦post|pots⟧" action="/api/«x»">
      <label for="«y»">«y»</label>
      <input id="«y»" name="«y»" type="number" min="1" max="«n»" required>
      <button type="submit">Save</button>
    </form>
  </body>
</html>
""",
        ),
    ),
}
