"""The `format`s that a raw text can be held to, as expressions for the whole text.

Promises: whatever an expression matches is of the format; some allow less (no leap seconds, no host names beyond
ASCII). A format that is not here cannot be promised.
"""

_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_SHORT_DAY, _DAY, _LONG_DAY = (f"(?:0[1-9]|[12][0-9]{end})" for end in ("", "|30", "|3[01]"))
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-{_LONG_DAY}|(?:0[469]|11)-{_DAY}|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_CLOCK}:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|[+-]{_CLOCK})"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9]{0,20}|[A-Za-z0-9]-[A-Za-z0-9]{1,20})"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,4}}"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HEX = "[0-9a-fA-F]"

TEXT_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "ipv4": rf"{_BYTE}(?:\.{_BYTE}){{3}}",
    "ipv6": rf"(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}|::(?:{_HEX}{{1,4}}(?::{_HEX}{{1,4}}){{0,5}})?",
    "hostname": _HOST,
    "email": rf"[A-Za-z0-9_+-]{{1,30}}(?:\.[A-Za-z0-9_+-]{{1,10}}){{0,2}}@{_HOST}",
    "uri": rf"[a-z][a-z0-9+.-]{{0,15}}://{_HOST}(?::[0-9]{{1,4}})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*"
    r"(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?(?:\x23[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?",
}
