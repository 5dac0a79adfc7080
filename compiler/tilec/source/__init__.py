"""Text of user files: spans, tolerant parsing, directives in comments. May import: the standard library only."""
from .directives import Directive
from .file import SourceFile
from .span import Span

__all__ = ["Directive", "SourceFile", "Span"]
