"""What the server loads before the first diagnostics: every module costs the user's waiting."""
from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

from tile_lsp.server.main import _version

LOADED = '''
import json, sys
from tile_lsp.cli import serve
serve._load_asyncio()
from tile_lsp.server import protocol_types
protocol_types.load()
from tile_lsp.server.main import create
create()
early = sorted(sys.modules)
import ssl
print(json.dumps([early, hasattr(ssl, "SSLContext")]))
'''
LATER = ("ssl", "email", "importlib.metadata", "tempfile", "hashlib", "tile_lsp.ide.hover", "tile_lsp.ide.completion", "tile_lsp.ide.navigation",
         "tile_lsp.ide.hints", "tile_lsp.ide.lowering", "torch", "tvm", "numpy")


def test_what_diagnostics_do_not_need_is_loaded_later():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded, tls_is_still_there = json.loads(done.stdout)
    assert not set(LATER) & set(loaded)
    assert "asyncio" in loaded and tls_is_still_there


def test_the_version_is_that_of_the_distribution():
    assert _version() == version("tilec")


def test_what_was_left_out_is_loaded_before_it_is_asked_for():
    code = LOADED.replace("import ssl", "import asyncio; from tile_lsp.server import later; asyncio.run(later.load_all()); early = sorted(sys.modules); import ssl")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded, _ = json.loads(done.stdout)
    assert {"tile_lsp.ide.hover", "tile_lsp.ide.completion", "tile_lsp.ide.navigation", "tile_lsp.ide.hints"} <= set(loaded)
    assert not {"torch", "tvm", "numpy"} & set(loaded)
