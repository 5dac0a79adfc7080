"""The protocol's classes made late are those that lsprotocol makes at once."""
from __future__ import annotations

import json
import subprocess
import sys

DESCRIBE = '''
import json, sys
if sys.argv[1] == "late":
    from tile_lsp.server import protocol_types
    protocol_types.load()
import attrs
from lsprotocol import converters, types
converter = converters.get_converter()
classes = {k: v for k, v in types.ALL_TYPES_MAP.items() if isinstance(v, type) and attrs.has(v)}
found = {k: [(a.name, str(a.type), repr(a.default), a.init, str(type(a.validator))) for a in attrs.fields(v)] for k, v in classes.items()}
place = types.Position(line=1, character=2)
item = types.CompletionItem(label="a", text_edit=types.TextEdit(range=types.Range(start=place, end=place), new_text="b"), data={"x": 1})
found["said"] = [repr(item), item == types.CompletionItem(label="a"), place < types.Position(line=1, character=3), converter.unstructure(item)]
back = converter.structure(converter.unstructure(item), types.CompletionItem)
found["back"] = [back == item, repr(back)]
try:
    types.Position(line=-1, character=0)
except ValueError as error:
    found["refused"] = str(error)
try:
    types.Position(lin=1)
except TypeError as error:
    found["unexpected"] = "lin" in str(error)
print(json.dumps(found))
'''
LATE = '''
import threading
from tile_lsp.server import protocol_types
protocol_types.load()
from lsprotocol import types
waiting = [v for v in types.ALL_TYPES_MAP.values() if isinstance(v, type) and isinstance(v.__dict__.get("__attrs_attrs__"), protocol_types._Fields)]
assert len(waiting) > 500, len(waiting)
failed, start = [], threading.Barrier(8)
def use():
    start.wait()
    for number in range(300):
        try:
            place = types.Position(line=number, character=0)
            found = types.Diagnostic(range=types.Range(start=place, end=place), message="m", related_information=[])
            types.PublishDiagnosticsParams(uri="u", diagnostics=[found]), types.Location(uri="u", range=found.range), types.Hover(contents="x")
        except Exception as error:
            failed.append(error)
            return
threads = [threading.Thread(target=use) for _ in range(8)]
import sys
sys.setswitchinterval(1e-6)
[t.start() for t in threads]; [t.join() for t in threads]
assert not failed, failed[0]
left = [v for v in waiting if isinstance(v.__dict__.get("__attrs_attrs__"), protocol_types._Fields)]
assert len(left) > 500, "only what was used is made"
'''


def run(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_same_classes():
    late, at_once = json.loads(run(DESCRIBE, "late")), json.loads(run(DESCRIBE, "at once"))
    assert len(at_once) > 500 and late.keys() == at_once.keys()
    assert {k: v for k, v in late.items() if v != at_once[k]} == {}
    assert late["back"][0] and late["unexpected"]


def test_several_threads_use_a_class_for_the_first_time():
    run(LATE)
