"""The clause registry: what it reads, what it refuses, and that nothing of the catalogue got lost."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.core import clauses, homes
from conformance.core.clauses import ClauseError
from conformance.core.sources import Source

CATALOGUE = """
Function.forward.overridden Function.forward.combined Function.setup_context.separate Function.forward.data-on-ctx
Function.forward.no-tensor-on-ctx Function.forward.frees-memory Function.forward.deterministic
Function.forward.calls-independent Function.backward.overridden Function.backward.vjp-alias
Function.backward.receives Function.backward.count Function.backward.gradient Function.backward.none-allowed
Function.backward.saved-tensors Function.backward.needs-input-grad Function.backward.needs-input-grad-honoured
Function.backward.grads-untouched Function.backward.any-layout Function.backward.double
Function.backward.repeatable Function.backward.unused-output Function.jvp.overridden Function.jvp.receives
Function.jvp.count Function.jvp.tangent Function.jvp.none-allowed Function.save_for_backward.once
Function.save_for_backward.where Function.save_for_backward.only-tensors Function.save_for_backward.none
Function.save_for_backward.in-place-check Function.save_for_backward.hooks
Function.save_for_backward.hooks-suffice Function.save_for_forward.once Function.save_for_forward.where
Function.save_for_forward.only-tensors Function.save_for_forward.saved-tensors Function.mark_dirty.once
Function.mark_dirty.only-inputs Function.mark_dirty.complete Function.mark_dirty.before-or-after
Function.mark_dirty.protects Function.mark_non_differentiable.once Function.mark_non_differentiable.only-outputs
Function.mark_non_differentiable.no-grad Function.mark_non_differentiable.zero-gradient
Function.set_materialize_grads.default Function.set_materialize_grads.where Function.set_materialize_grads.zeros
Function.set_materialize_grads.none Function.vmap.required Function.vmap.not-both Function.vmap.separate-form
Function.vmap.info Function.vmap.in-dims Function.vmap.out-dims Function.vmap.batched Function.init.instance
Function.attributes.reflect Function.attributes.node Function.attributes.deprecated
AllGatherGradAutograd.forward.every-rank AllGatherGradAutograd.forward.meta
AllGatherGradAutograd.forward.any-layout AllGatherGradAutograd.forward.own-memory
AllGatherGradAutograd.backward.sum AllGatherGradAutograd.backward.own-memory
AllGatherGradAutograd.backward.unused AllGatherGradAutograd.backward.one-rank
AllGatherGradAutograd.backward.no-grad AllGatherGradAutograd.jvp.gather AllGatherGradAutograd.vmap.batched
AllGatherGradAutograd.forward.mismatch AllGather.forward.concatenates AllGather.forward.one-rank
AllGather.backward.local-slice AllGather.backward.none-for-args AllGather.jvp.gather AllGather.vmap.batched
GradFactor.forward.identity GradFactor.backward.scaled GradFactor.backward.none-for-f GradFactor.backward.twice
GradFactor.jvp.scaled GradFactor.vmap.batched MakeViewlessTensor.forward.viewless
MakeViewlessTensor.forward.shares-data MakeViewlessTensor.backward.identity
MakeViewlessTensor.forward.releases-base make_viewless_tensor.keep-graph make_viewless_tensor.not-a-view
NestedIOFunction.forward.nested NestedIOFunction.backward.nested NestedIOFunction.saved_tensors.nested
NestedIOFunction.mark_dirty.nested NestedIOFunction.mark_non_differentiable.nested
NestedIOFunction.forward_extended.overridden NestedIOFunction.forward.bad-type
NestedIOFunction.backward.gradient
""".split()

SPECS = {
    "Collective", "Function", "AllGatherGradAutograd", "AllGather", "GradFactor", "MakeViewlessTensor",
    "NestedIOFunction",
}  # fmt: skip


def write(root: Path, docstring: str, name: str = "module.py", extra: str = "") -> Path:
    """A package with one class ``Thing`` whose method ``forward`` has the docstring."""
    package = root / "package"
    package.mkdir(exist_ok=True)
    head = f"DOCUMENTS = {dict.fromkeys('KT', ('a document', ''))}"
    body = f'{head}; SPEC = "Thing"\nclass Thing:\n    def forward(self):\n        {docstring!r}\n{extra}'
    (package / name).write_text(body, encoding="utf-8", errors="surrogatepass")
    return package


def directive(
    head: str = "Thing.forward.what", options: str = ':level: must\n:sources: K "words"', text: str = "It does."
) -> str:
    return f"Head.\n\n.. clause:: {head}\n{textwrap.indent(options, '   ')}\n\n   {text}\n"


def test_a_clause_is_read_with_its_place(tmp_path):
    root = write(tmp_path, directive(options=":level: may\n:party: engine\n:sources: ours\n:versions: torch<2.14"))
    (clause,) = clauses.read(root)
    assert (clause.id, clause.party, clause.level) == ("Thing.forward.what", "engine", "may")
    assert (clause.text, clause.versions) == ("It does.", "torch<2.14")
    assert (clause.spec, clause.object, clause.module) == ("Thing", "Thing.forward", "package.module")
    assert clause.file.endswith("module.py")


def test_sources_may_run_over_several_lines(tmp_path):
    root = write(tmp_path, directive(options=':level: must\n:sources: K T "words",\n   ours'))
    assert clauses.read(root)[0].sources == (Source("K", "words"), Source("T", "words"), Source("ours"))


def test_the_line_is_that_of_the_directive(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    source = (
        'SPEC = "A"\n\n\nclass A:\n    """Head.\n\n    .. clause:: A.b.c\n'
        '       :level: quality\n       :sources: ours\n\n       Text.\n    """\n'
    )
    (package / "m.py").write_text(source)
    assert clauses.read(package)[0].line == source[: source.index("..")].count("\n") + 1


def test_text_runs_over_paragraphs_and_ends_with_the_indentation(tmp_path):
    root = write(tmp_path, directive(text="One\n   two.\n\n   Three.\n\nNot this."))
    assert clauses.read(root)[0].text == "One two. Three."


def test_the_separate_form_may_hold_clauses_of_its_class(tmp_path):
    doc = directive("Thing.vmap.what")
    root = write(tmp_path, "Nothing.", extra=f"class ThingSeparate:\n    def vmap(self):\n        {doc!r}\n")
    assert clauses.read(root)[0].object == "ThingSeparate.vmap"


@pytest.mark.parametrize(
    ("doc", "problem"),
    [
        (directive("Thing.forward"), "not those of"),
        (directive("Thing.forward.What"), "an id is"),
        (directive("Thing.forward.what.more"), "an id is"),
        (directive(""), "an id is"),
        (directive("Other.forward.what"), "not those of"),
        (directive("Thing.backward.what"), "not those of"),
        (directive(options=":sources: ours"), "level ''"),
        (directive(options=":level: shall\n:sources: ours"), "level 'shall'"),
        (directive(options=":level: must\n:party: user\n:sources: X Extending PyTorch"), "party 'user'"),
        (directive(options=":level: must"), "needs its sources"),
        (directive(options=":level: quality"), "needs its sources"),
        (directive(options=":level: must\n:sources: ours"), "a must needs a source besides ours"),
        (directive(options=":level: should\n:sources: ours"), "a should needs a source besides ours"),
        (directive(options=":level: must\n:sources: K"), "sources: 'K' is no source"),
        (directive(options=":level: may\n:sources: ours\n:versions: new"), "versions 'new'"),
        (directive(options=":level: must\n:source: ours"), "option 'source'"),
        (directive(options=":level: must\n:level: may\n:sources: ours"), "option 'level'"),
        (directive(text=""), "text is missing"),
        ("Head.\n\n.. clause:: Thing.forward.what\n   :level: must\n   Text.\n", "blank line"),
        ("Head.\n\n.. clause: Thing.forward.what\n\n   Text.\n", "a directive is written"),
    ],
)
def test_a_malformed_clause_is_refused_with_file_line_and_id(tmp_path, doc, problem):
    with pytest.raises(ClauseError, match=problem) as caught:
        clauses.read(write(tmp_path, doc))
    assert "module.py:4: clause " in str(caught.value) or "module.py:6: clause " in str(caught.value)


def test_an_id_used_twice_is_refused_and_both_places_named(tmp_path):
    write(tmp_path, directive(), "a.py")
    with pytest.raises(ClauseError, match=r"b\.py.*Thing\.forward\.what.*used before at .*a\.py"):
        clauses.read(write(tmp_path, directive(), "b.py"))


def test_a_module_with_clauses_names_its_spec(tmp_path):
    root = write(tmp_path, directive())
    source = (root / "module.py").read_text()
    (root / "module.py").write_text(source.replace('SPEC = "Thing"', ""))
    with pytest.raises(ClauseError, match="declares no SPEC"):
        clauses.read(root)
    (root / "module.py").write_text(source.replace('SPEC = "Thing"', 'SPEC = "Nothing"'))
    with pytest.raises(ClauseError, match="SPEC must name a class of this module"):
        clauses.read(root)


def test_a_topic_in_a_module_of_its_own_holds_clauses_of_the_spec_it_imports(tmp_path):
    root = write(tmp_path, directive())
    doc = directive("Thing.forward.more")
    topic = f'from package.module import Thing\nSPEC = "Thing"\nclass ThingModes(Thing):\n    {doc!r}\n'
    (root / "topic.py").write_text(topic)
    assert [(clause.id, clause.object, clause.spec) for clause in clauses.read(root)] == [
        ("Thing.forward.what", "Thing.forward", "Thing"),
        ("Thing.forward.more", "ThingModes", "Thing"),
    ]
    (root / "topic.py").write_text(topic.replace("ThingModes", "Other"))
    with pytest.raises(ClauseError, match="object and member are not those of Other"):
        clauses.read(root)


def test_a_module_that_does_not_parse_is_named(tmp_path):
    root = write(tmp_path, directive())
    (root / "broken.py").write_text("def :")
    with pytest.raises(ClauseError, match=r"broken\.py:1"):
        clauses.read(root)


pieces = st.sampled_from(
    [".. clause::", ".. clause:: Thing.forward.a", " ", "   ", "\n", "\n\n", ":level: must", ":level:",
     ":sources: ours", ":sources: K",
     ":party: engine", ":versions: torch<2",
     "Text.", "\t", "\r", "\x0c", "\x85", "\0", "\\", '"""', "é", "::", "..", "\ud800"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(pieces, max_size=30).map("".join)))
def test_any_docstring_is_read_or_refused(tmp_path_factory, docstring):
    root = write(tmp_path_factory.getbasetemp(), docstring)
    try:
        found = clauses.read(root)
    except ClauseError as error:
        assert "module.py:" in str(error)
    else:
        assert all(clause.text and clause.level in clauses.LEVELS for clause in found)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1))
def test_a_text_comes_back_as_it_was_written(tmp_path_factory, text):
    root = write(tmp_path_factory.getbasetemp(), directive(text=f"x {text}"))
    assert clauses.read(root)[0].text == f"x {text}"


def test_every_clause_of_the_catalogue_is_there():
    assert len(CATALOGUE) == len(set(CATALOGUE)) == 100
    assert set(CATALOGUE) <= set(clauses.registry())


def test_specs_are_the_documented_classes():
    assert set(homes.names()) == {clause.spec for clause in clauses.registry().values()} == SPECS
    assert {clause.spec for clause in clauses.registry().values()} == SPECS
    assert clauses.registry()["make_viewless_tensor.keep-graph"].spec == "MakeViewlessTensor"


def test_the_digest_changes_with_the_words(monkeypatch):
    from dataclasses import replace

    before = clauses.registry()
    digest = clauses.digest()
    first = next(iter(before.values()))
    monkeypatch.setattr(clauses, "registry", lambda: {**before, first.id: replace(first, text="Else.")})
    assert clauses.digest() != digest
    assert clauses.text_hash(first) != clauses.text_hash(replace(first, text="Else."))
