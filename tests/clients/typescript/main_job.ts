// The main job through the types that openapi-typescript made. Arguments: address of the service, CSV file.
import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [url, csv] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url });

function need<Data, Problem>(answer: { data?: Data; error?: Problem }): Data {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const form = new FormData();
form.append("file", new Blob([readFileSync(csv)], { type: "text/csv" }), "mails.csv");
const dataset = need(
  // The body is a form that fetch itself writes.
  await client.POST("/datasets", { body: {} as never, bodySerializer: () => form }),
);

type Objective = components["schemas"]["TrainRequest"]["objective"];
const objectives: Objective[] = [
  { kind: "precision", target: 0.9, confidence: 0.8 },
  { kind: "recall", target: 0.9 },
  { kind: "precision_recall", precision: 0.8, recall: 0.7 },
  { kind: "ham_loss", at_most: 0.001, confidence: 0.9 },
  { kind: "false_positive_rate", at_most: 0.01 },
  { kind: "f1" },
  { kind: "f_beta", beta: 2 },
  { kind: "cost", false_negative: 5, false_positive: 1 },
];
for (const objective of objectives) {
  const would = need(
    await client.POST("/train", {
      params: { query: { dry_run: true } },
      body: { dataset: dataset.id, target: "label", positive: "spam", objective },
    }),
  );
  const got = would.request["objective"] as Objective;
  for (const [name, value] of Object.entries(objective)) {
    if (got[name as keyof Objective] !== value) throw new Error(`${objective.kind}: ${JSON.stringify(got)}`);
  }
}

const accepted = need(
  await client.POST("/train", {
    body: {
      dataset: dataset.id,
      target: "label",
      positive: "spam",
      objective: { kind: "recall", target: 0.9 },
    },
  }),
);
if (!("id" in accepted)) throw new Error("a dry run was not asked for");
let job = accepted;
while (job.status === "queued" || job.status === "running") {
  await new Promise((resolve) => setTimeout(resolve, 200));
  job = need(await client.GET("/jobs/{job_id}", { params: { path: { job_id: job.id } } }));
}
if (job.status !== "succeeded" || !job.model_id) throw new Error(JSON.stringify(job));

const answer = need(
  await client.POST("/predict", { body: { model: job.model_id, rows: [{ length: -3 }, { length: 3 }] } }),
);
console.log(answer.predictions.map((prediction) => prediction.label).join(" "));
