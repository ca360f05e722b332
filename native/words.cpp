#include "words.h"

namespace whitedwarf {

namespace {

constexpr uint8_t kEnd = 0xff;

bool is_ascii_letter(char c) { return uint8_t((c | 0x20) - 'a') < 26; }

uint32_t code_point(const uint8_t* p, int* size) {
    if (p[0] < 0xe0) {
        *size = 2;
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    }
    if (p[0] < 0xf0) {
        *size = 3;
        return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    }
    *size = 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

}  // namespace

Words::Words(std::string_view text)
    : classes_(character_classes()), place_(text.data()), end_(text.data() + text.size()) {}

inline Words::Character Words::at(const char* place) const {
    if (place == end_) return {kEnd, 0};
    const auto* bytes = reinterpret_cast<const uint8_t*>(place);
    if (*bytes < 0x80) return {classes_[*bytes], 1};
    Character character{};
    const uint32_t code = code_point(bytes, &character.size);
    character.kind = classes_[code];
    return character;
}

// Whether the character lies in the same stretch.
inline bool Words::continues(const Character& character) const {
    return character.kind != kNumber && (character.kind & ~kKindMask) == zone_;
}

std::string_view Words::next() {
    const char* start = place_;
    if (start == end_) return {};
    const Character first = at(start);
    zone_ = first.kind & kIdeographic;
    if (first.kind == kNumber) {
        place_ = numbers(start);
    } else if (const char* matched = match(start)) {
        place_ = matched;
    } else {
        place_ += first.size;
        for (Character next = at(place_); continues(next) && !match(place_); next = at(place_)) place_ += next.size;
    }
    return {start, size_t(place_ - start)};
}

const char* Words::numbers(const char* place) const {
    for (int count = 0; count < 3; ++count) {
        const Character next = at(place);
        if (next.kind != kNumber) break;
        place += next.size;
    }
    return place;
}

// Where the match that begins here ends; null where nothing matches.
const char* Words::match(const char* place) const {
    const Character first = at(place);
    const char* second = place + first.size;
    const uint8_t kind = first.kind & kKindMask;
    if (kind == kLetter) return run(second, kLetter);
    if (kind == kSign) {
        if (first.size > 1 || second == end_ || !is_ascii_letter(*second)) return signs(second);
        while (second != end_ && is_ascii_letter(*second)) ++second;
        return second;
    }
    const Character next = at(second);
    if (kind != kLineEnd && next.kind == (kLetter | zone_)) return run(second + next.size, kLetter);
    if (*place == ' ' && next.kind == kSign) return signs(second + next.size);
    return kind == kOther ? nullptr : blanks(place);
}

const char* Words::run(const char* place, uint8_t kind) const {
    for (Character next = at(place); next.kind == (kind | zone_); next = at(place)) place += next.size;
    return place;
}

const char* Words::signs(const char* place) const { return run(run(place, kSign), kLineEnd); }

const char* Words::blanks(const char* place) const {
    const char *start = place, *last = place, *line_end = nullptr;
    Character next = at(place);
    for (; next.kind == kBlank || next.kind == kLineEnd; next = at(place)) {
        last = place;
        place += next.size;
        if (next.kind == kLineEnd) line_end = place;
    }
    if (line_end) return line_end;
    return continues(next) && last != start ? last : place;
}

}  // namespace whitedwarf
