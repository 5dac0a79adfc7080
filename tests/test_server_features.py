"""Each feature of the protocol over stdio: completion, signatures, navigation, rename, symbols, tokens, hints, folding, lenses and actions with resolve."""
from __future__ import annotations

import pytest
import pytest_lsp
from lsp_client import FAKE_SERVER, Editor, begin, config
from lsp_kernels import FAULTY, MATMUL
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import LanguageClient
from tilelang_installs import GEMM, install

HELPERS = '''import tilelang.language as T


def tile(block):
    return block * 2


WIDTH = tile(64)
'''


@pytest_lsp.fixture(config=config(FAKE_SERVER))
async def client(lsp_client: LanguageClient):
    yield
    await lsp_client.shutdown_session()


async def complete(client, editor: Editor, needle: str, offset: int) -> dict[str, types.CompletionItem]:
    found = await client.text_document_completion_async(types.CompletionParams(text_document=editor.id, position=editor.position(needle, offset)))
    return {item.label: item for item in found.items}


def text_at(text: str, place: types.Range) -> str:
    lines = text.split("\n")
    assert place.start.line == place.end.line
    return lines[place.start.line][place.start.character:place.end.character]


# -- completion and signatures -------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_completion_of_names_and_their_documentation(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL.replace("T.clear(C_local)", "T.cle"))
    found = await complete(client, editor, "T.cle", 5)
    assert "clear" in found and "gemm" in found and found["clear"].text_edit.range.start == editor.position("T.cle", 2)
    assert found["clear"].documentation is None
    resolved = await client.completion_item_resolve_async(found["clear"])
    assert "Fills a tile with zeros" in resolved.documentation.value and "TileLang 0.1.15" in resolved.documentation.value
    assert found["clear"].sort_text < found["float32"].sort_text, "what kernels are made of comes first"


@pytest.mark.asyncio
async def test_completion_of_arguments(client, tmp_path):
    await begin(client, tmp_path)
    text = MATMUL.replace("T.gemm(A_shared, B_shared, C_local)", "T.gemm(A_shared, B_shared, C_local, )").replace('alloc_shared((block_M, block_K), dtype)', 'alloc_shared((block_M, block_K), "")')
    editor = Editor(client, tmp_path / "a.py", text)
    found = await complete(client, editor, "B_shared, C_local, )", len("B_shared, C_local, "))
    assert {"transpose_A=", "policy=", "A_shared", "k"} <= set(found) and "A=" not in found
    assert "float16" in found["B_shared"].detail and "(32, 64)" in found["B_shared"].detail and "shared" in found["B_shared"].detail
    quoted = await complete(client, editor, '(block_M, block_K), "")', len('(block_M, block_K), "'))
    assert {"float16", "bfloat16", "float8_e4m3fn"} <= set(quoted)


@pytest.mark.asyncio
async def test_completion_in_comments_and_nowhere_else(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL + "# tile-lsp: ig\nx = 1  # tile-lsp: ignore[TL1\n# T.\ny = 'T.'\n")
    assert {"ignore", "instance"} <= set(await complete(client, editor, "# tile-lsp: ig\n", 14))
    assert "TL101" in await complete(client, editor, "ignore[TL1", 10)
    assert not await complete(client, editor, "# T.", 4)
    assert not await complete(client, editor, "'T.'", 3)
    plain = Editor(client, tmp_path / "plain.py", "import os\nos.pa")
    assert not await complete(client, plain, "os.pa", 5)


@pytest.mark.asyncio
async def test_signature_help(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL.replace("T.gemm(A_shared, B_shared, C_local)", "T.gemm(A_shared, B_shared, transpose_B=") + "\nmatmul(1, 2,\n")

    async def ask(needle: str, offset: int):
        return await client.text_document_signature_help_async(types.SignatureHelpParams(text_document=editor.id, position=editor.position(needle, offset)))

    def active(found) -> str:
        (signature,) = found.signatures
        start, end = signature.parameters[found.active_parameter].label
        return signature.label[start:end]

    assert active(await ask("A_shared, B_shared, transpose_B=", 3)).startswith("A")
    found = await ask("transpose_B=", 12)
    assert active(found).startswith("transpose_B") and "C += A @ B" in found.signatures[0].documentation.value
    assert active(await ask("matmul(1, 2,", 12)) == "K", "the user's own functions too"
    assert await ask("import tilelang\n", 3) is None


# -- navigation ----------------------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_definition_in_the_file_the_workspace_and_tilelang(client, tmp_path):
    package = install(tmp_path, "0.1.9")
    (tmp_path / "helpers.py").write_text(HELPERS)
    await begin(client, tmp_path, tilelangVersion="")
    editor = Editor(client, tmp_path / "a.py", MATMUL.replace("import tilelang\n", "import tilelang\nfrom helpers import tile, WIDTH\n") + "print(tile(2), WIDTH)\n")

    async def definition(needle: str, offset: int = 0) -> list[types.Location]:
        return await client.text_document_definition_async(types.DefinitionParams(text_document=editor.id, position=editor.position(needle, offset)))

    (local,) = await definition("B_shared, C_local")
    assert local.uri == editor.uri and local.range.start == editor.position("B_shared = ")
    (parameter,) = await definition("T.Tensor((M, K)", 10)
    assert parameter.range.start == editor.position("matmul(M", 7)
    (helper,) = await definition("tile(2)")
    assert helper.uri == (tmp_path / "helpers.py").as_uri() and text_at(HELPERS, helper.range) == "tile"
    (module,) = await definition("WIDTH)")
    assert text_at(HELPERS, module.range) == "WIDTH"
    (gemm,) = await definition("T.gemm", 3)
    assert gemm.uri == (package / "language" / "gemm_op.py").as_uri() and text_at(GEMM, gemm.range) == "gemm"
    assert not await definition("@tilelang.jit", 0)


@pytest.mark.asyncio
async def test_references_and_highlights(client, tmp_path):
    (tmp_path / "helpers.py").write_text(HELPERS)
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL.replace("import tilelang\n", "import tilelang\nfrom helpers import tile\n") + "print(tile(2))\n")

    async def references(needle: str, declaration: bool) -> list[types.Location]:
        return await client.text_document_references_async(types.ReferenceParams(
            text_document=editor.id, position=editor.position(needle), context=types.ReferenceContext(include_declaration=declaration)))

    found = await references("A_shared", True)
    assert len(found) == 3 == 1 + len(await references("A_shared", False)) and all(text_at(editor.text, f.range) == "A_shared" for f in found)
    across = await references("tile(2)", True)
    assert sorted((f.uri.rsplit("/", 1)[-1], f.range.start.line) for f in across) == [("a.py", 1), ("a.py", 26 + 2), ("helpers.py", 3), ("helpers.py", 7)]
    marks = await client.text_document_document_highlight_async(types.DocumentHighlightParams(text_document=editor.id, position=editor.position("A_shared")))
    assert [m.kind for m in marks] == [types.DocumentHighlightKind.Write, types.DocumentHighlightKind.Read, types.DocumentHighlightKind.Read]


@pytest.mark.asyncio
async def test_rename(client, tmp_path):
    (tmp_path / "helpers.py").write_text(HELPERS)
    await begin(client, tmp_path)
    source = MATMUL.replace("@tilelang.jit", "# tile-lsp: instance M=256, N=256, K=64, block_K=64\n@tilelang.jit").replace(
        "import tilelang\n", "import tilelang\nfrom helpers import tile\n") + "matmul(64, 64, 64, block_K=tile(16))\n"
    editor = Editor(client, tmp_path / "a.py", source)

    async def rename(needle: str, new: str) -> dict[str, list[types.TextEdit]]:
        edit = await client.text_document_rename_async(types.RenameParams(text_document=editor.id, position=editor.position(needle), new_name=new))
        return {c.text_document.uri: list(c.edits) for c in edit.document_changes}

    edits = (await rename("block_K=32", "depth"))[editor.uri]
    assert len(edits) == source.count("block_K"), "keyword arguments of calls and instance directives name the parameter too"
    across = await rename("tile(16)", "twice")
    assert set(across) == {editor.uri, (tmp_path / "helpers.py").as_uri()} and all(e.new_text == "twice" for es in across.values() for e in es)
    place = await client.text_document_prepare_rename_async(types.PrepareRenameParams(text_document=editor.id, position=editor.position("C_local", 2)))
    assert text_at(editor.text, place) == "C_local"
    for needle, new, why in (("C_local", "A_shared", "already the name"), ("C_local", "2x", "no name that Python takes"), ("gemm(A_sh", "matmul", "belongs to TileLang")):
        with pytest.raises(JsonRpcException, match=why):
            await rename(needle, new)


@pytest.mark.asyncio
async def test_symbols(client, tmp_path):
    (tmp_path / "other.py").write_text(MATMUL.replace("matmul", "blocked_product"))
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "hidden.py").write_text(MATMUL)
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL)
    (kernel,) = await client.text_document_document_symbol_async(types.DocumentSymbolParams(text_document=editor.id))
    assert kernel.name == "matmul" and {"A", "A_shared", "C_local"} <= {c.name for c in kernel.children}
    found = await client.workspace_symbol_async(types.WorkspaceSymbolParams(query="bproduct"))
    assert [f.name for f in found] == ["blocked_product"] and found[0].location.uri == (tmp_path / "other.py").as_uri()
    assert {f.name for f in await client.workspace_symbol_async(types.WorkspaceSymbolParams(query=""))} == {"matmul", "blocked_product"}


# -- what is drawn into the text ---------------------------------------------------------------------------------------------------
def decoded(legend: types.SemanticTokensLegend, data: list[int], text: str) -> list[tuple[str, str, set[str]]]:
    lines, line, column, found = text.split("\n"), 0, 0, []
    for i in range(0, len(data), 5):
        line, column = line + data[i], data[i + 1] + (column if data[i] == 0 else 0)
        word = lines[line].encode("utf-16-le")[2 * column:2 * (column + data[i + 2])].decode("utf-16-le")
        found.append((word, legend.token_types[data[i + 3]], {m for b, m in enumerate(legend.token_modifiers) if data[i + 4] >> b & 1}))
    return found


def apply(edits: list[types.SemanticTokensEdit], data: list[int]) -> list[int]:
    for edit in sorted(edits, key=lambda e: -e.start):
        data = [*data[:edit.start], *(edit.data or ()), *data[edit.start + edit.delete_count:]]
    return data


@pytest.mark.asyncio
async def test_semantic_tokens_whole_changed_and_of_a_range(client, tmp_path):
    legend = (await begin(client, tmp_path)).capabilities.semantic_tokens_provider.legend
    editor = Editor(client, tmp_path / "a.py", "# \U0001f600 not a letter of the BMP\n" + MATMUL)
    whole = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(text_document=editor.id))
    tokens = decoded(legend, whole.data, editor.text)
    assert ("gemm", "function", {"defaultLibrary"}) in tokens and ("A_shared", "variable", {"definition", "shared"}) in tokens
    assert ("C_local", "variable", {"fragment"}) in tokens and ("bx", "variable", {"definition", "readonly"}) in tokens
    editor.replace("A_shared = ", "A_sh = ")
    editor.replace("A_shared)", "A_sh)")
    editor.replace("T.gemm(A_shared", "T.gemm(A_sh")
    delta = await client.text_document_semantic_tokens_full_delta_async(types.SemanticTokensDeltaParams(text_document=editor.id, previous_result_id=whole.result_id))
    fresh = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(text_document=editor.id))
    assert isinstance(delta, types.SemanticTokensDelta) and apply(list(delta.edits), list(whole.data)) == list(fresh.data)
    line = editor.position("T.gemm").line
    part = await client.text_document_semantic_tokens_range_async(types.SemanticTokensRangeParams(
        text_document=editor.id, range=types.Range(start=types.Position(line=line, character=0), end=types.Position(line=line, character=99))))
    assert [word for word, _, _ in decoded(legend, part.data, editor.text)] == ["gemm", "A_sh", "B_shared", "C_local"]


@pytest.mark.asyncio
async def test_inlay_hints(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL)
    everything = types.Range(start=types.Position(line=0, character=0), end=types.Position(line=999, character=0))

    async def hints() -> list[types.InlayHint]:
        return list(await client.text_document_inlay_hint_async(types.InlayHintParams(text_document=editor.id, range=everything)))

    found = {(h.position.line, h.label) for h in await hints()}
    assert (editor.position("A_shared = ").line, ": (64, 32) float16") in found
    assert (editor.position("matmul(M").line, "=128") in found, "values of the instance"
    assert any("shared" in label for line, label in found if line == editor.position("with T.Kernel").line)
    await editor.hover("matmul(M", 1)
    assert any("96 registers" in h.label for h in await hints()), "what compiling said is shown from then on"


@pytest.mark.asyncio
async def test_folding(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL + "# region tail\nx = 1\n# endregion\n# one\n# two\n")
    found = [(f.start_line, f.end_line, f.kind) for f in await client.text_document_folding_range_async(types.FoldingRangeParams(text_document=editor.id))]
    loop = editor.position("for k in").line
    assert (loop, loop + 3, None) in found and (0, 1, types.FoldingRangeKind.Imports) in found
    assert (editor.position("# region").line, editor.position("# endregion").line, types.FoldingRangeKind.Region) in found
    assert (editor.position("# one").line, editor.position("# two").line, types.FoldingRangeKind.Comment) in found


# -- lenses and actions ---------------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_lens_resolve_shows_the_lens_as_it_is_now(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL)
    first = (await editor.lenses())[0]
    bare = types.CodeLens(range=first.range, data=first.data)
    assert (await client.code_lens_resolve_async(bare)).command == first.command


@pytest.mark.asyncio
async def test_edits_of_actions_are_made_when_asked_for(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", FAULTY)
    await editor.diagnostics(lambda d: len(d) == 1)
    place = types.Range(start=editor.position("Paralel"), end=editor.position("Paralel"))
    found = await client.text_document_code_action_async(types.CodeActionParams(text_document=editor.id, range=place, context=types.CodeActionContext(diagnostics=[])))
    found = [a for a in found if isinstance(a, types.CodeAction)]
    fix = next(a for a in found if a.is_preferred)
    assert fix.edit is None
    assert (await client.code_action_resolve_async(fix)).edit.changes[editor.uri][0].new_text == "Parallel"
    ignore = next(a for a in found if a.title.startswith("Ignore TL101"))
    (edit,) = (await client.code_action_resolve_async(ignore)).edit.changes[editor.uri]
    assert edit.new_text == "  # tile-lsp: ignore[TL101]"
    line = editor.text.split("\n")[edit.range.start.line]
    editor.replace(line, line + edit.new_text)
    assert await editor.diagnostics(lambda d: not d) == []
    assert (await client.code_action_resolve_async(fix)).edit is None, "the text is another by now"


@pytest.mark.asyncio
async def test_all_safe_fixes_at_once(client, tmp_path):
    await begin(client, tmp_path)
    editor = Editor(client, tmp_path / "a.py", MATMUL.replace("T.clear(", "T.cleer(") + 'n = T.symbolic("n")\n')
    await editor.diagnostics(lambda d: len(d) == 2)
    everywhere = types.Range(start=types.Position(line=0, character=0), end=types.Position(line=99, character=0))
    (action,) = await client.text_document_code_action_async(types.CodeActionParams(
        text_document=editor.id, range=everywhere, context=types.CodeActionContext(diagnostics=[], only=[types.CodeActionKind.SourceFixAll])))
    (edit,) = (await client.code_action_resolve_async(action)).edit.changes[editor.uri]
    assert edit.new_text == "dynamic" and edit.range.start == editor.position("symbolic"), "the misspelt name is only a guess"
