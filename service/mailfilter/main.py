"""The process of the mail filter: ``python -m service.mailfilter.main``.

It listens before the database is there, and while it is away: mails are then passed on as they came.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from service.access.authenticator import Authenticator
from service.access.caller import Caller
from service.access.keys import ApiKey
from service.db.session import STATEMENT_SECONDS, Database
from service.feedback.mails import MailFeedback
from service.isolation import hide_secrets
from service.mailfilter.addresses import Address, check_mail_settings
from service.mailfilter.chat import Chat
from service.mailfilter.counted import CountedFilter
from service.mailfilter.deciders import Deciders, count_of, decider_forkserver
from service.mailfilter.deciding import Deciding, HereDeciding
from service.mailfilter.figures import Figures
from service.mailfilter.filtering import CORRESPONDENT, SOMEBODY, TRAP, MailFilter, Source
from service.mailfilter.forkserver import Forkserver
from service.mailfilter.http_doors import Basics, HttpDoor, HttpDoors
from service.mailfilter.listener import Listener
from service.mailfilter.mta_hooks import MtaHooks
from service.mailfilter.rspamd import Rspamd
from service.mailfilter.spamd import Spamd
from service.memory import settle
from service.models.service import ModelService
from service.predictions.budget import BYTES_A_BYTE_OF_MAIL
from service.predictions.service import PredictionService
from service.settings import ConfigurationError, Settings
from solver.kernels.parallel import single_threaded_blas

log = logging.getLogger("prefsvm.mail")


def sources_of(settings: Settings) -> list[Source]:
    """Return who may say what is spam."""
    wanted = (
        (settings.mail_learn, SOMEBODY),
        (settings.mail_learn_correspondents, Source(CORRESPONDENT, False, settings.mail_correspondent_weight)),
        (settings.mail_learn_traps, Source(TRAP, True, settings.mail_trap_weight)),
    )
    return [source for is_on, source in wanted if is_on]


def make_listener(
    settings: Settings, deciding: Deciding, database: Database, system: Database, key: ApiKey | None
) -> Listener:
    """Wire the mail filter. Nothing is global."""
    authenticator = Authenticator(system, keys_required=settings.keys_are_required)
    sent = [] if key is None else [f"Bearer {key.text}".encode()]
    caller: Callable[[], Awaitable[Caller]] = partial(authenticator.caller_of, sent, "mail filter")
    mails = MailFilter(
        deciding,
        ModelService(database),
        MailFeedback(database, settings.max_feedback_rows),
        caller,
        alias=settings.mail_model,
        sources=sources_of(settings),
        seconds=settings.mail_seconds,
        min_labels=settings.mail_min_labels,
        most_bytes=settings.mail_memory_bytes // BYTES_A_BYTE_OF_MAIL,
    )
    figures = Figures()
    counted = CountedFilter(mails, figures)
    tempfail = settings.mail_tempfail
    doors: list[HttpDoor] = [Basics(figures), Rspamd(counted, tempfail=tempfail), MtaHooks(counted, tempfail=tempfail)]
    if settings.mail_chat:
        doors.append(Chat(counted, settings.mail_model, tempfail=tempfail))
    return Listener(
        Spamd(counted, tempfail=tempfail),
        HttpDoors(doors),
        figures,
        most_connections=settings.mail_connections,
        memory_bytes=settings.mail_memory_bytes,
    )


async def serve(
    settings: Settings,
    addresses: list[Address],
    key: ApiKey | None,
    forkserver: Forkserver | None,
    stopping: asyncio.Event,
) -> None:
    """Serve until told to stop; raises `OSError` if it cannot listen."""
    url = str(settings.database_url)
    database = Database(url, application_name="prefsvm-mail", one_project=True, statement_seconds=STATEMENT_SECONDS)
    system = Database(settings.system_database_url or url, pool_size=2, application_name="prefsvm-mail")
    predictions = PredictionService(database, settings)
    deciders = Deciders(forkserver, count_of(settings.mail_processes), HereDeciding(predictions))
    await deciders.open()
    listener = make_listener(settings, deciders, database, system, key)
    told = await listener.open(addresses)
    log.info("listening at %s for mails for the model %s", ", ".join(told), settings.mail_model)
    async with predictions.running():
        await stopping.wait()
        await listener.close()
        await deciders.close()
    database.close()
    system.close()


async def _until_signal(
    settings: Settings, addresses: list[Address], key: ApiKey | None, forkserver: Forkserver | None
) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await serve(settings, addresses, key, forkserver, stopping)


def main() -> None:
    """Serve mail software until SIGTERM or SIGINT, with settings from the environment."""
    hide_secrets()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = Settings()
    try:
        addresses, key = check_mail_settings(settings)
        if not addresses:
            raise ConfigurationError("PREFSVM_MAIL_LISTEN is not set: name a loopback address, such as 127.0.0.1:783")
        if settings.database_url is None:
            raise ConfigurationError("PREFSVM_DATABASE_URL is not set; `prefsvm serve` sets it")
        settle()
        with single_threaded_blas():
            forkserver = None
            if count := count_of(settings.mail_processes):
                cache = settings.model_cache_bytes // count
                forkserver = decider_forkserver(settings.model_copy(update={"model_cache_bytes": cache}))
            asyncio.run(_until_signal(settings, addresses, key, forkserver))
    except ConfigurationError as error:
        sys.exit(f"prefsvm: {error}")
    except OSError as error:
        sys.exit(f"prefsvm: cannot listen at {settings.mail_listen}: {error.strerror or error}")


if __name__ == "__main__":
    main()
