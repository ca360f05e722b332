"""The `format`s that a raw text can be held to, as expressions for the whole text.

Promises: whatever an expression matches is of the format; some allow less (no leap seconds, no names beyond ASCII,
no quoted addresses). A format that is not here cannot be promised. Sources: RFC 3339 with its appendix A, 1123, 5321,
4291, 4122 and 3986.
"""

_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_SHORT_DAY, _DAY, _LONG_DAY = (f"(?:0[1-9]|[12][0-9]{end})" for end in ("", "|30", "|3[01]"))
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-{_LONG_DAY}|(?:0[469]|11)-{_DAY}|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_CLOCK}:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|[+-]{_CLOCK})"
_LABEL = r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,31}"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,6}}"
_ATOM = r"[A-Za-z0-9_+-]"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HEX = "[0-9a-fA-F]"
_GROUP = f"{_HEX}{{1,4}}"
_AROUND_ZEROS = [f"(?:{_GROUP}:){{1,{before}}}(?::{_GROUP}){{1,{7 - before}}}" for before in range(1, 7)]
_NUMBER = "[0-9]{1,9}"
_HOURS = f"T(?:{_NUMBER}H(?:{_NUMBER}M(?:{_NUMBER}S)?)?|{_NUMBER}M(?:{_NUMBER}S)?|{_NUMBER}S)"
_DAYS = f"(?:{_NUMBER}Y(?:{_NUMBER}M(?:{_NUMBER}D)?)?|{_NUMBER}M(?:{_NUMBER}D)?|{_NUMBER}D)"
_OF_PATH = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%{_HEX}{{2}})"
_OF_QUERY = f"(?:{_OF_PATH}|[/?])*"
_AUTHORITY = rf"(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]*@)?{_HOST}(?::[0-9]{{1,4}})?)?"

TEXT_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": f"P(?:{_NUMBER}W|{_HOURS}|{_DAYS}(?:{_HOURS})?)",
    "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "ipv4": rf"{_BYTE}(?:\.{_BYTE}){{3}}",
    "ipv6": "|".join(
        [f"(?:{_GROUP}:){{7}}{_GROUP}", *_AROUND_ZEROS, f"(?:{_GROUP}:){{1,7}}:", f":(?::{_GROUP}){{1,7}}", "::"]
    ),
    "hostname": _HOST,
    "email": rf"(?:{_ATOM}{{1,64}}|{_ATOM}{{1,31}}\.{_ATOM}{{1,31}}|{_ATOM}{{1,20}}(?:\.{_ATOM}{{1,20}}){{2}})@{_HOST}",
    "uri": rf"[A-Za-z][A-Za-z0-9+.-]{{0,20}}:(?://{_AUTHORITY}(?:/{_OF_PATH}*)*|/?(?:{_OF_PATH}+(?:/{_OF_PATH}*)*)?)"
    rf"(?:\?{_OF_QUERY})?(?:\x23{_OF_QUERY})?",
}
