// Runs the exit protocol with the generated client: work moves through all phases, and a stale lease is refused.
// Usage: protocol URL, with a token of the scope operate in TOKEN. It prints the proof of the last event and the key of the box.
import assert from "node:assert/strict";
import { createClient } from "./client/client/index.js";
import { addTask, claimWork, getKey, getWork, listEvents, listWork, openWork, proveEvent, renewLease, revokeLease, streamEvents, submitExit, verifyLedger } from "./client/index.js";
import type { Event, Problem, SubmitExitData } from "./client/index.js";

const baseUrl = process.argv[2];
const operator = createClient({ baseUrl, auth: process.env.TOKEN, throwOnError: true });

// Every phase of a work item, with the role that claims it and the phase that follows.
const phases: [phase: string, role: string, next: string][] = [
  ["DRAFT", "business-analyst", "IMPLEMENTATION"],
  ["IMPLEMENTATION", "developer", "CI_PENDING"],
  ["CI_PENDING", "ci", "READY_FOR_REVIEW"],
  ["READY_FOR_REVIEW", "critic", "REVIEW"],
  ["REVIEW", "critic", "READY_FOR_MERGE"],
  ["READY_FOR_MERGE", "auditor", "COMPLETED"],
];

const exitOf = (phase: string): SubmitExitData["body"] => ({
  signal: { protocol: "apm2_agent_exit", version: "1.0.0", phase_completed: phase, exit_reason: "completed" },
});

// claim returns a lease and a client for its holder.
async function claim(role: string) {
  const { data: lease } = await claimWork({ client: operator, body: { role }, throwOnError: true });
  assert.ok(lease.secret);
  return { lease, holder: createClient({ baseUrl, auth: lease.secret }), path: { session: lease.session } };
}

const { data: opened } = await openWork({ client: operator, body: { work: "task-1", title: "guard the counter", phase: "DRAFT" }, throwOnError: true });
assert.equal(opened.phase, "DRAFT");

for (const [phase, role, next] of phases) {
  if (phase === "IMPLEMENTATION") {
    const { lease, holder, path } = await claim(role);
    await revokeLease({ client: operator, path: { task: lease.work }, body: { reason: "it takes too long" }, throwOnError: true });
    const { error, response } = await submitExit({ client: holder, path, body: exitOf(phase) });
    const problem: Problem | undefined = error;
    assert.equal(response?.status, 409);
    assert.equal(problem?.reason, "stale_lease");
    const { data: refused } = await getWork({ client: operator, path: { task: "task-1" }, throwOnError: true });
    assert.equal(refused.phase, phase, "a refused signal moved the work");
  }
  const { lease, holder, path } = await claim(role);
  assert.equal(lease.phase, phase);
  const { data: renewed } = await renewLease({ client: holder, path, body: { work: lease.work, epoch: lease.lease.epoch, ttl_seconds: 3600 }, throwOnError: true });
  assert.ok(Date.parse(renewed.lease.expires) > Date.parse(lease.lease.expires));
  const { data: exited } = await submitExit({ client: holder, path, body: exitOf(phase), throwOnError: true });
  assert.equal(exited.next_phase, next);
  const { response } = await listWork({ client: holder });
  assert.equal(response?.status, 403, "the secret of a lease reads the box");
}

const { data: list } = await listWork({ client: operator, query: { phase: "COMPLETED" }, throwOnError: true });
assert.deepEqual(list.items.map((task) => task.id), ["task-1"]);

const { data: added } = await addTask({ client: operator, body: { text: "fix the typo", review: "checks" }, throwOnError: true });
assert.equal(added.work, "A-1");

// The server signs a checkpoint within a second. Only what it covers can be proved.
const verify = async () => (await verifyLedger({ client: operator, throwOnError: true })).data;
let report = await verify();
while (report.ok && report.signed < report.events) report = await verify();
assert.equal(report.ok, true);

const { data: events } = await listEvents({ client: operator, query: { limit: 1000 }, throwOnError: true });
assert.equal(events.items.length, report.events);
const last: Event | undefined = events.items.at(-1);
assert.ok(last);
assert.equal(last.hash, report.head);

// The stream has the same events.
const leave = new AbortController();
const { stream } = await streamEvents({ client: operator, query: { after: "0" }, signal: leave.signal });
let streamed = 0;
for await (const event of stream) {
  assert.deepEqual(event, events.items[streamed++]);
  if (streamed === events.items.length) break;
}
leave.abort();

const { data: key } = await getKey({ client: operator, throwOnError: true });
const { data: proof } = await proveEvent({ client: operator, path: { seq: last.seq }, throwOnError: true });
console.log(JSON.stringify({ key: key.key, proof }));
