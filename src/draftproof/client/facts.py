"""What can be known of a server before the first check: its well-known endpoints, its dialect, what it can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from draftproof.client.dialect import Dialect, Survey
from draftproof.client.dialects import DIALECTS
from draftproof.client.evidence import Sink
from draftproof.client.http import Http
from draftproof.client.patience import Budget, Limits
from draftproof.client.probe import LiveProbe
from draftproof.client.trials import try_out
from draftproof.client.wire import server_words
from draftproof.core.errors import TargetError, Unreachable
from draftproof.core.exchange import Exchange
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort

WELL_KNOWN = ("/health", "/v1/models")
"""Asked of every server; then those where its kind describes itself (`Dialect.paths`)."""

_KEY_REMEDY = "Give an API key that this server takes, by the name of its environment variable, with --api-key-env."


def connect(
    url: str,
    *,
    api_key: str = "",
    limits: Limits | None = None,
    sink: Sink | None = None,
    seed: int = 0,
    effort: Effort = Effort.STANDARD,
    samples: int | None = None,
    budget: Budget | None = None,
    answered: Callable[[], None] | None = None,
    first_number: int = 1,
) -> LiveProbe:
    """A probe of the server at `url`, whose facts are known. `answered` is called after every request, from any thread.
    `first_number` is that of its first exchange in the evidence.

    Raises UsageError for a URL that cannot be, Unreachable when nobody answers, TargetError when the answers make no LLM server.
    """
    http = Http(
        url, api_key=api_key, limits=limits, sink=sink, budget=budget, answered=answered, first_number=first_number
    )
    try:
        survey = take_survey(http)
        dialect, evidence = recognise(http.url, survey)
        dialect, facts = try_out(http, dialect.adapted(survey), _described(http, dialect, evidence, survey))
    except BaseException:
        http.close()
        raise
    probe = LiveProbe(http, dialect, facts, seed=seed, effort=effort, samples=samples)
    probe.describes(survey)
    return probe


def take_survey(http: Http) -> Survey:
    """Asks the well-known endpoints once each: those of all servers, then those of its kind, or of one kind after the other until
    one is recognised.

    One that fails is left out, unless it is the first: then nobody is there. After one without any answer the rest are left out
    too: each would cost the wait for a restart.
    """
    answers: dict[str, Exchange] = {}
    _ask(http, WELL_KNOWN, answers)
    for dialect in [d for d in DIALECTS[:-1] if d.recognise(Survey(answers))][:1] or DIALECTS:
        if not _ask(http, dialect.paths, answers) or dialect.recognise(Survey(answers)):
            break
    return Survey(answers)


def _ask(http: Http, paths: Sequence[str], answers: dict[str, Exchange]) -> bool:
    """Fills in the answers; False when the server does not answer any more."""
    for path in paths:
        if path in answers:
            continue
        try:
            answers[path] = http.get(path)
        except TargetError as e:
            if not answers:
                raise
            if isinstance(e, Unreachable):
                return False
        else:
            _require_ready(http.url, answers[path])
    return True


def _require_ready(url: str, answer: Exchange) -> None:
    """Raises TargetError where it makes no sense to ask on: a key is wanted, or the model is not loaded yet."""
    if answer.path == "/v1/models" and answer.status in (401, 403):
        raise TargetError(f"{url} wants an API key ({server_words(answer)}).", _KEY_REMEDY, answer.number)
    if answer.path in ("/health", "/v1/models") and answer.status == 503:
        raise TargetError(
            f"{url} is not ready ({server_words(answer)}).", "Come again when it has loaded its model.", answer.number
        )


def recognise(url: str, survey: Survey, dialects: Sequence[Dialect] = DIALECTS) -> tuple[Dialect, str]:
    """The first dialect that recognises the server, and by what. Raises TargetError when none does."""
    for dialect in dialects:
        evidence = dialect.recognise(survey)
        if evidence:
            return dialect, evidence
    answered = ", ".join(f"{path} {exchange.status}" for path, exchange in survey.answers.items())
    raise TargetError(
        f"{url} answers, but not like an LLM server that draftproof knows ({answered}).",
        "Give the URL at which its /v1/models can be read.",
    )


def _described(http: Http, dialect: Dialect, evidence: str, survey: Survey) -> Facts:
    said = dialect.describe(survey)
    return Facts(
        url=http.url,
        dialect=dialect.name,
        dialect_evidence=evidence,
        build=said.build,
        model=said.model,
        vocabulary=said.vocabulary,
        context=said.context,
        slots=said.slots,
        self_reports=said.self_reports,
        reports_drafts=dialect.reports_drafts,
        prompt_routes=dialect.prompt_routes,
        uncached=dialect.uncached,
        drafting=said.drafting,
        notes=said.notes,
    )
