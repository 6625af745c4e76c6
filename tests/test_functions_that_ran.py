"""A report names the Function classes that ran, where the subject is something that calls them."""

import torch

from conformance import Subject, check
from conformance.kit import answers
from conformance.report.html import page


class Scaled(torch.autograd.Function):
    """Correct, and called by others below."""

    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, g):
        return 3 * g


OWN = f"{Scaled.__module__}:Scaled"


def layer(x):
    """Call the Function inside, as a module or an operator does."""
    return Scaled.apply(x).relu()


def plain(x):
    return 3 * x


def of(target, spec="Function", **more) -> tuple[str, ...]:
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    (subject,) = check(target, (x,), spec=spec, only=f"{spec}.backward.gradient", **more).subjects
    return subject.functions


def test_a_callable_shows_the_class_that_it_calls():
    assert of(layer) == (OWN,)


def test_ranks_that_are_simulated_show_it_too():
    assert of(layer, spec="Collective", ranks=2, simulated=True) == (OWN,)


def test_ranks_in_processes_of_their_own_show_it_too():
    assert of(layer, spec="Collective", ranks=2) == (OWN,)


def test_a_class_is_not_named_twice():
    assert of(Scaled) == ()


def test_what_calls_no_function_names_none():
    assert of(plain) == ()


def test_of_another_with_the_same_label_nothing_is_known():
    assert of(lambda x: Scaled.apply(x)) == (OWN,)
    assert of(lambda x: plain(x)) == ()
    assert of(lambda x: plain(x), spec="Collective", ranks=2, simulated=True, types="V -> V") == ()


def test_apply_stands_for_its_class():
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    (subject,) = check(Scaled.apply, (x,)).subjects
    (usual,) = check(Scaled, (x,)).subjects
    assert subject.subject == usual.subject == OWN
    assert {clause.id: clause.verdict for clause in subject.clauses} == {
        clause.id: clause.verdict for clause in usual.clauses
    }


def test_the_graphs_of_later_calls_are_not_searched(monkeypatch):
    """A graph of many operations would be walked at every call, to find no Function each time."""
    searched = []
    monkeypatch.setattr(answers, "names_of_functions_behind", searched.append)
    monkeypatch.setattr(answers, "SEARCHED", 3)
    subject = Subject(plain, name="walked once too often")
    for _ in range(5):
        subject(torch.ones(2, requires_grad=True))
    assert len(searched) == 3


def test_the_page_names_it():
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    assert f"Functions that ran: <code>{OWN}</code>" in page(check(layer, (x,), only="Function.backward.gradient"))
