"""An MCP server that lists garbage: `python mcp_garbage.py`. Speaks JSON lines itself: the package would refuse to."""

import json
import sys

GOOD = {"name": "good", "description": "Works.", "inputSchema": {"type": "object"}}
TOOLS = [
    GOOD,
    GOOD | {"description": "again"},
    {"name": "two words", "inputSchema": {"type": "object"}},
    {"name": "x" * 100, "inputSchema": {"type": "object"}},
    {"name": "\u001b[2J", "inputSchema": {"type": "object"}},
]


def answer(request: dict) -> dict | None:
    method = request.get("method")
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "g", "version": "1"}}
    if method == "tools/list":  # without an end
        page = int((request.get("params") or {}).get("cursor") or 0)
        return {"tools": TOOLS if page == 0 else [GOOD | {"name": f"t{page}"}], "nextCursor": str(page + 1)}
    if method == "tools/call":
        return {"content": "no list"}
    return None


for line in sys.stdin:
    request = json.loads(line)
    print("this is no JSON", flush=True)
    if "id" in request:
        result = answer(request)
        reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)
