"""Every call of the API has a command. Who adds a call adds a command, and its line here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer.main

from service.cli.main import app

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"
COMMANDS = {
    "addFeedback": "feedback add",
    "answerAudit": "audit",
    "appendToUpload": "upload",
    "cancelBatch": "batches cancel",
    "cancelJob": "jobs",
    "changeProject": "projects limit",
    "chooseOperatingPoint": "threshold",
    "correctDataset": "datasets correct",
    "createAudit": "audit",
    "createBatch": "batch",
    "createDataset": "upload",
    "createKey": "keys create",
    "createProject": "projects create",
    "createUpload": "upload",
    "createWebhook": "webhooks create",
    "deleteAlias": "aliases delete",
    "deleteAliasShadow": "aliases set",
    "deleteAudit": "audits delete",
    "deleteDataset": "datasets delete",
    "deleteFeedback": "feedback delete",
    "deleteModel": "models",
    "deleteUpload": "uploads delete",
    "deleteWebhook": "webhooks delete",
    "exportModel": "export",
    "getAlias": "aliases show",
    "getAliasShadow": "aliases shadow",
    "getAudit": "audits show",
    "getAuditRows": "audit",
    "getBatch": "batches show",
    "getBatchResult": "batches result",
    "getDataset": "datasets show",
    "getDatasetHistograms": "datasets spread",
    "getDatasetRows": "datasets rows",
    "getExample": "example",
    "getExampleFile": "example",
    "getFeedback": "feedback show",
    "getJob": "jobs",
    "getLimits": "projects usage",
    "getMetrics": "metrics",
    "getModel": "models",
    "getModelCard": "card",
    "getModelCurve": "curve",
    "getModelDrift": "drift",
    "getModelQueue": "queue",
    "getModelReport": "card",
    "getModelThresholds": "curve",
    "getProject": "projects show",
    "getReadiness": "status",
    "getUpload": "uploads show",
    "getUploadOffset": "upload",
    "listAliases": "aliases list",
    "listAudits": "audits list",
    "listBatches": "batches list",
    "listDatasets": "datasets list",
    "listFeedback": "feedback list",
    "listJobEvents": "follow",
    "listJobs": "jobs",
    "listKeys": "keys list",
    "listModels": "models",
    "listOperatingPoints": "threshold",
    "listProjects": "projects list",
    "listUploads": "uploads list",
    "listWebhookDeliveries": "webhooks deliveries",
    "listWebhooks": "webhooks list",
    "predict": "predict",
    "putAlias": "aliases set",
    "retrainAlias": "retrain",
    "retryJob": "retry",
    "revokeKey": "keys revoke",
    "rollbackAlias": "aliases rollback",
    "rotateKey": "keys rotate",
    "sealAudit": "audits seal",
    "train": "train",
}
OF_OTHER_CLIENTS = {
    "describeUploads",  # what a client of TUS asks before it knows the server
    "getHealth",  # whether the process is there: `status` says more
}
"""Beside those, the calls of the Open Inference Protocol are for its own clients."""


def test_every_call_has_a_command() -> None:
    paths = json.loads(DOCUMENT.read_text())["paths"]
    calls = {
        described["operationId"]
        for path, methods in paths.items()
        if path != "/v2" and not path.startswith("/v2/")
        for described in methods.values()
    }
    assert calls == COMMANDS.keys() | OF_OTHER_CLIENTS


@pytest.mark.parametrize("command", sorted(set(COMMANDS.values())))
def test_the_command_is_there(command: str) -> None:
    found = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]
    assert found.help
