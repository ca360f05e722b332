"""Write down which test files take long: `python scripts/file_seconds.py run.xml` after `pytest --junitxml=run.xml`.

tests/conftest.py has the longest files run first. Files below LEAST_S are left out: where they come does not matter.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "tests" / "file_seconds.json"
LEAST_S = 5


def file_of(class_name: str) -> str | None:
    """The file of a case's dotted name, which may end with a class."""
    parts = class_name.split(".")
    for length in range(len(parts), 0, -1):
        path = Path("/".join(parts[:length]) + ".py")
        if (ROOT / path).is_file():
            return path.as_posix()
    return None


def seconds_by_file(report: Path) -> dict[str, int]:
    """Whole seconds of each file that takes long, longest first."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        file = file_of(case.get("classname", ""))
        if file is not None:
            seconds[file] += float(case.get("time", 0))
    longest_first = sorted(seconds.items(), key=lambda item: (-item[1], item[0]))
    return {file: round(took) for file, took in longest_first if took >= LEAST_S}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="what pytest --junitxml wrote")
    TABLE.write_text(json.dumps(seconds_by_file(parser.parse_args().report), indent=1) + "\n")


if __name__ == "__main__":
    main()
