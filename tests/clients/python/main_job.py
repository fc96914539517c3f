"""The main job through the client that openapi-python-client made. Arguments: address of the service, CSV file."""

import sys
import time
from io import BytesIO
from pathlib import Path

from prefsvm_client import Client
from prefsvm_client.api.datasets import create_dataset
from prefsvm_client.api.jobs import get_job, train
from prefsvm_client.api.models import get_model
from prefsvm_client.api.predictions import predict
from prefsvm_client.models import (
    CostObjective,
    CostObjectiveKind,
    CreateDatasetFilesBody,
    Dataset,
    DryRun,
    F1Objective,
    F1ObjectiveKind,
    FalsePositiveRateObjective,
    FalsePositiveRateObjectiveKind,
    FBetaObjective,
    FBetaObjectiveKind,
    Job,
    JobStatus,
    Model,
    PrecisionObjective,
    PrecisionObjectiveKind,
    PrecisionRecallObjective,
    PrecisionRecallObjectiveKind,
    PredictAnswer,
    PredictRequest,
    PredictRequestRowsType0Item,
    RecallObjective,
    RecallObjectiveKind,
    TrainRequest,
)
from prefsvm_client.types import File

url, csv = sys.argv[1], Path(sys.argv[2])
client = Client(base_url=url, raise_on_unexpected_status=True)

file = File(payload=BytesIO(csv.read_bytes()), file_name=csv.name, mime_type="text/csv")
dataset = create_dataset.sync(client=client, body=CreateDatasetFilesBody(file=file))
assert isinstance(dataset, Dataset), dataset

request = TrainRequest(
    dataset=dataset.id,
    target="label",
    positive="spam",
    objective=RecallObjective(kind=RecallObjectiveKind.RECALL, target=0.9),
)
objectives = [
    PrecisionObjective(kind=PrecisionObjectiveKind.PRECISION, target=0.9, confidence=0.8),
    RecallObjective(kind=RecallObjectiveKind.RECALL, target=0.9),
    PrecisionRecallObjective(kind=PrecisionRecallObjectiveKind.PRECISION_RECALL, precision=0.8, recall=0.7),
    FalsePositiveRateObjective(kind=FalsePositiveRateObjectiveKind.HAM_LOSS, at_most=0.001, confidence=0.9),
    F1Objective(kind=F1ObjectiveKind.F1),
    FBetaObjective(kind=FBetaObjectiveKind.F_BETA, beta=2.0),
    CostObjective(kind=CostObjectiveKind.COST, false_negative=5.0, false_positive=1.0),
]
for objective in objectives:
    asked = TrainRequest(dataset=dataset.id, target="label", positive="spam", objective=objective)
    assert TrainRequest.from_dict(asked.to_dict()) == asked
    would = train.sync(client=client, body=asked, dry_run=True)
    assert isinstance(would, DryRun), would
    got = TrainRequest.from_dict(would.request.to_dict())
    assert type(got.objective) is type(objective)
    assert objective.to_dict().items() <= got.objective.to_dict().items()

job = train.sync(client=client, body=request)
assert isinstance(job, Job), job
while job.status in (JobStatus.QUEUED, JobStatus.RUNNING):
    time.sleep(0.2)
    job = get_job.sync(client=client, job_id=job.id)
    assert isinstance(job, Job), job
assert job.status == JobStatus.SUCCEEDED, job
assert isinstance(job.model_id, str)

model = get_model.sync(client=client, model_id=job.model_id)
assert isinstance(model, Model), model
rows = [PredictRequestRowsType0Item.from_dict({"length": length}) for length in (-3.0, 3.0)]
answer = predict.sync(client=client, body=PredictRequest(model=model.id, rows=rows))
assert isinstance(answer, PredictAnswer), answer
print(*(prediction.label for prediction in answer.predictions))
