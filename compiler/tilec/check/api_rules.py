"""Uses of TileLang's names against what the configured release exports."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from ..evaluate.problem import ApiUse
from ..source.span import Span
from .api import FACADE, Api
from .diagnostic import Diagnostic, Edit, Fix
from .registry import BY_NAME
from .settings import OFF, Settings
from .versions import newer

# Misspellings that a comparison of letters does not find, and ideas from other languages.
_INTENDED = {
    "alloc_smem": "alloc_shared",
    "alloc_sharedmem": "alloc_shared",
    "alloc_shmem": "alloc_shared",
    "shared": "alloc_shared",
    "fragment": "alloc_fragment",
    "alloc_register": "alloc_fragment",
    "alloc_frag": "alloc_fragment",
    "alloc_reg": "alloc_fragment",
    "matmul": "gemm",
    "dot": "gemm",
    "mma": "gemm",
    "zeros": "clear",
    "zero": "clear",
    "syncthreads": "sync_threads",
    "where": "if_then_else",
    "arange": "serial",
    "range": "serial",
    "program_id": "get_block_binding",
    "thread_idx": "get_thread_binding",
    "load": "copy",
    "store": "copy",
    "sum": "reduce_sum",
    "pipeline": "Pipelined",
    "cdiv": "ceildiv",
    "dyn": "dynamic",
    "fill_zero": "clear",
}
_INTENDED_KEYWORDS = {
    "trans_A": "transpose_A",
    "trans_B": "transpose_B",
    "transA": "transpose_A",
    "transB": "transpose_B",
    "num_threads": "threads",
    "nthreads": "threads",
    "stages": "num_stages",
    "axis": "dim",
    "out_index": "out_idx",
    "block_threads": "threads",
    "accumulate": "clear_accum",
    "barrier": "mbar",
}
_CALLABLE = ("function", "op", "class", "macro-decorator", "dtype")


def check_api(uses: Iterable[ApiUse], api: Api, settings: Settings) -> Iterator[Diagnostic]:
    clean: set[tuple[object, ...]] = set()  # a file uses few names in few ways many times
    old: set[str] = set()  # deprecated names that were told
    for use in uses:
        if use.call is not None and use.name in _DEPRECATED and use.name not in old:
            old.add(use.name)
            told = _deprecated(use, api, settings)
            if told is not None:
                yield told
        shape = _shape(use)
        if shape in clean:
            continue
        found = [d for d in _check_use(use, api, settings) if d is not None]
        if not found:
            clean.add(shape)
        yield from found


def _shape(use: ApiUse) -> tuple[object, ...]:
    """Everything that decides whether a use is right."""
    call = use.call
    if call is None:
        return use.module, use.name
    return use.module, use.name, call.positional, tuple(name for name, _ in call.keywords), call.has_star


def _check_use(use: ApiUse, api: Api, settings: Settings) -> Iterator[Diagnostic | None]:
    if use.name.startswith("_"):
        return
    if not api.has(use.name, use.module):
        yield _missing(use, api, settings)
    elif use.call is not None and use.module == FACADE and api.kind(use.name) == "module":
        yield _called_module(use, api, settings)
    elif use.call is not None:
        yield from _check_call(use, api, settings)


def _report(rule: str, message: str, span: Span, settings: Settings, fix: Fix | None = None) -> Diagnostic | None:
    data = BY_NAME[rule]
    severity = settings.severity(data, data.severity)
    if severity == OFF or not settings.wants(data):
        return None
    return Diagnostic(data.code, data.name, severity, message, span, (), fix)


def shown(use: ApiUse) -> str:
    return use.name if use.imported and "." not in use.text else use.text


# -- names ---------------------------------------------------------------------------------------
def _missing(use: ApiUse, api: Api, settings: Settings) -> Diagnostic | None:
    if use.module != FACADE:
        return _missing_elsewhere(use, api, settings)
    added, removed = api.added_in(use.name), api.removed_in(use.name)
    replacement = api.replacement(use.name)
    prefix = use.text[: -len(use.name)] if use.text.endswith(use.name) else ""
    instead = f"; use {_with_prefix(replacement.text, prefix)}" if replacement else ""
    fix = None
    if replacement is not None and replacement.rename:
        fix = Fix(f"Use {prefix}{replacement.rename}", (Edit(use.name_span, replacement.rename),), safe=False)
    what = f"{shown(use)} is not exported by tilelang.language {api.version}"
    if added is not None and newer(added, api.version):
        return _report("newer-api", f"{what} (added in {added}){instead}", use.span, settings, fix)
    if removed is not None and not newer(removed, api.version):
        return _report("removed-api", f"{what} (removed in {removed}){instead}", use.span, settings, fix)
    return _unknown(use, api, settings, what, instead, prefix)


def _unknown(use: ApiUse, api: Api, settings: Settings, what: str, instead: str, prefix: str) -> Diagnostic | None:
    elsewhere = api.elsewhere(use.name)
    if elsewhere and not instead:
        return _report("unknown-attribute", f"{what}; {elsewhere} has it", use.span, settings)
    near = None if instead else _closest(use.name, [n for n in api.names() if api.kind(n) != "module"], _INTENDED)
    hint = instead or (f"; did you mean {prefix}{near}?" if near else "")
    fix = Fix(f"Change to {prefix}{near}", (Edit(use.name_span, near),), safe=False) if near else None
    return _report("unknown-attribute", f"{what}{hint}", use.span, settings, fix)


def _called_module(use: ApiUse, api: Api, settings: Settings) -> Diagnostic | None:
    """``T.kernel(...)``: the module that T.Kernel is defined in."""
    near = next((n for n in api.names() if n.lower() == use.name.lower() and api.kind(n) not in (None, "module")), None)
    hint = f"; did you mean {use.text[: -len(use.name)]}{near}?" if near else ""
    return _report("unknown-attribute", f"{shown(use)} is a module of TileLang {api.version}, which cannot be called{hint}", use.span, settings)


def _with_prefix(text: str, prefix: str) -> str:
    return text.replace("T.", prefix or "", 1) if text.startswith("T.") and prefix != "T." else text


def _missing_elsewhere(use: ApiUse, api: Api, settings: Settings) -> Diagnostic | None:
    """Not everything of the other modules is known, so only what looks like a misspelling is reported."""
    near = _closest(
        use.name,
        [n for n in api.names(use.module) if api.kind(n, use.module) in ("function", "class")],
        {},
        cutoff=0.82,
    )
    if near is None:
        return None
    fix = Fix(f"Change to {near}", (Edit(use.name_span, near),), safe=False)
    return _report(
        "unknown-attribute",
        f"{shown(use)} is not exported by {use.module} {api.version}; did you mean {near}?",
        use.span,
        settings,
        fix,
    )


def _closest(name: str, names: list[str], intended: dict[str, str], cutoff: float = 0.72) -> str | None:
    if intended.get(name) in names:
        return intended[name]
    folded = {n.lower().replace("_", ""): n for n in names}
    exact = folded.get(name.lower().replace("_", ""))
    if exact:
        return exact
    close = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    return close[0] if close else None


# Names that still work but will go: what takes their place, and whether it is called the same way.
_DEPRECATED = {"symbolic": ("dynamic", True), "c2d_im2col": ("im2col", True), "Buffer": ("Tensor", False)}


def _deprecated(use: ApiUse, api: Api, settings: Settings) -> Diagnostic | None:
    """Told once a file and name."""
    successor, alike = _DEPRECATED[use.name]
    if use.module != FACADE or not api.has(use.name) or not api.has(successor):
        return None
    prefix = use.text[: -len(use.name)] if use.text.endswith(use.name) else ""
    fix = Fix(f"Use {prefix}{successor}", (Edit(use.name_span, successor),), safe=alike) if not use.imported else None
    return _report("deprecated-api", f"{shown(use)} will go; use {prefix}{successor}", use.span, settings, fix)


# -- calls ---------------------------------------------------------------------------------------
def _check_call(use: ApiUse, api: Api, settings: Settings) -> Iterator[Diagnostic | None]:
    parameters = api.parameters(use.name, use.module)
    call = use.call
    if parameters is None or call is None or api.kind(use.name, use.module) not in _CALLABLE:
        return
    by_name = {p.name: p for p in parameters if not p.kind.startswith("var_") and p.kind != "positional_only"}
    takes_any = any(p.kind == "var_keyword" for p in parameters)
    forwards_dtype = (
        api.kind(use.name, use.module) == "op"
    )  # TIR's wrappers take dtype= and put it where the operator wants it
    bad = forwards_dtype and any(k == "dtype" for k, _ in call.keywords)
    for keyword, span in call.keywords:
        if keyword not in by_name and not takes_any and not (forwards_dtype and keyword == "dtype"):
            bad = True
            yield _unknown_keyword(use, api, settings, keyword, span, list(by_name))
    if not bad and not call.has_star:
        yield _arity(use, parameters, settings)


def _unknown_keyword(
    use: ApiUse, api: Api, settings: Settings, keyword: str, span: Span, names: list[str]
) -> Diagnostic | None:
    who = shown(use)
    facade = use.module == FACADE
    removed = api.parameter_removed_in(use.name, keyword) if facade else None
    added = api.parameter_added_in(use.name, keyword) if facade else None
    if added is not None:
        gone = f", removed in {removed}" if removed else ""
        rule = "removed-keyword" if removed else "newer-api"
        return _report(
            rule, f"{who} of tilelang {api.version} has no parameter {keyword} (added in {added}{gone})", span, settings
        )
    if removed is not None:
        return _report(
            "removed-keyword",
            f"{who} has no parameter {keyword} since {removed} (the version is {api.version})",
            span,
            settings,
        )
    near = _closest(keyword, names, _INTENDED_KEYWORDS, cutoff=0.6)
    hint = f"; did you mean {near}?" if near else f"; it has {', '.join(names)}" if names else ""
    fix = Fix(f"Change to {near}", (Edit(span, near),), safe=False) if near else None
    return _report("unknown-keyword", f"{who} has no parameter {keyword}{hint}", span, settings, fix)


def _arity(use: ApiUse, parameters: Iterable, settings: Settings) -> Diagnostic | None:
    call = use.call
    assert call is not None
    parameters = list(parameters)
    positional = [p for p in parameters if p.kind in ("positional_only", "positional_or_keyword")]
    given = {k for k, _ in call.keywords}
    who = shown(use)
    if call.positional > len(positional) and not any(p.kind == "var_positional" for p in parameters):
        most = len(positional)
        keyword_only = [p.name for p in parameters if p.kind == "keyword_only"]
        hint = f"; {', '.join(keyword_only)} are given by keyword" if keyword_only else ""
        place = call.argument_spans[most] if most < len(call.argument_spans) else call.span
        return _report(
            "wrong-arity",
            f"{who} takes {most} positional argument{'s' if most != 1 else ''}, but {call.positional} are given{hint}",
            place,
            settings,
        )
    double = next(
        (p.name for p in positional[: call.positional] if p.name in given and p.kind != "positional_only"), None
    )
    if double:
        return _report(
            "wrong-arity", f"{who}: {double} is given twice, by position and by keyword", call.span, settings
        )
    missing = [p.name for p in positional[call.positional :] if not p.has_default and p.name not in given]
    missing += [p.name for p in parameters if p.kind == "keyword_only" and not p.has_default and p.name not in given]
    if missing:
        what = "argument" if len(missing) == 1 else "arguments"
        return _report("wrong-arity", f"{who} lacks the {what} {', '.join(missing)}", call.span, settings)
    return None
