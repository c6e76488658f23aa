//! Jobs from outside: a worker in another language, and an operator at the command line.

use std::process::{Command, Stdio};
use std::sync::Arc;

use everhook_testkit::process::Process;
use everhook_testkit::wait::{PATIENCE, unix_seconds, until};
use serde_json::{Value, json};

use crate::binary::client::{Client, text};
use crate::binary::environment::{python, repository};
use crate::binary::operator::Operator;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    the_worker_of_the_documentation_keeps_the_contract,
    jobs_and_queues_are_steered_by_commands,
    batches_are_mended_by_commands,
    schedules_are_made_by_commands,
}

/// Starts the worker of the documentation.
fn start_worker(server: &Server, queues: &[&str]) -> Process {
    let mut command = Command::new(python());
    command
        .arg(repository("examples/worker.py"))
        .args(queues)
        .env("EVERHOOK_URL", server.url())
        .env("EVERHOOK_KEY", server.key())
        .env("LEASE_SECONDS", "5")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Process::start(&mut command, Stdio::inherit()).expect("the example runs")
}

#[track_caller]
fn enqueue(client: &Client, kind: &str, payload: Value) -> String {
    let job = json!({ "queue": "email", "kind": kind, "payload": payload, "backoff": [0] });
    text(&client.post("/job", &job).expect(202)["id"])
}

fn shown(client: &Client, id: &str) -> Value {
    client.get(&format!("/job/{id}")).expect(200)
}

#[track_caller]
fn wait_for(client: &Client, id: &str, state: &str) -> Value {
    until(&format!("{id} is {state}"), || Some(shown(client, id)).filter(|job| job["state"] == state))
}

fn the_worker_of_the_documentation_keeps_the_contract(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let client = server.client();
    let mut worker = start_worker(&server, &["email"]);
    assert!(worker.line(PATIENCE).unwrap().starts_with("registered sess_"));

    let greeting = enqueue(&client, "greet", json!({ "name": "Ada" }));
    let done = wait_for(&client, &greeting, "succeeded");
    assert_eq!(done["result"], json!({ "greeting": "Hello, Ada!" }));
    assert_eq!(done["progress"], json!({ "percent": 50, "text": "thinking of a greeting" }));
    assert_eq!(done["attempts"][0]["log"], json!(["attempt 1 of 10"]));

    let flaky = wait_for(&client, &enqueue(&client, "flaky", Value::Null), "succeeded");
    assert_eq!(flaky["attempts"][1]["error"], "RuntimeError: the first attempt always fails");

    // The worker must meet the job before its time, also on a busy machine.
    let later = enqueue(&client, "later", json!({ "notBefore": unix_seconds() + 5 }));
    let later = wait_for(&client, &later, "succeeded");
    assert_eq!(later["attempts"].as_array().unwrap().last().unwrap()["class"], "snoozed");

    // The worker of a cancelled job learns of it from its heartbeat and stops.
    let patient = enqueue(&client, "patient", json!({ "steps": 100_000 }));
    wait_for(&client, &patient, "leased");
    client.post(&format!("/job/{patient}/cancel"), &Value::Null).expect(200);
    let cancelled = wait_for(&client, &patient, "cancelled");
    assert!(text(&cancelled["attempts"][0]["error"]).contains("stopped before step"), "{cancelled}");

    // An orderly stop finishes leased jobs and leaves the others for another worker.
    let last = enqueue(&client, "patient", json!({ "steps": 20 }));
    wait_for(&client, &last, "leased");
    worker.signal("TERM").unwrap();
    wait_for(&client, &last, "succeeded");
    let status = until("the worker has ended", || worker.ended().unwrap());
    assert!(status.success());
    assert_eq!(client.get("/worker").expect(200)["data"], json!([]), "it signed off");
    let waiting = enqueue(&client, "greet", json!({ "name": "Bob" }));
    assert_eq!(shown(&client, &waiting)["state"], "pending");
}

/// Leases a job of a queue and fails it.
fn fail_one(client: &Client, queue: &str, error: &str) -> String {
    let worker = json!({ "name": "w", "queues": [queue] });
    let worker = text(&client.post("/worker", &worker).expect(201)["id"]);
    let leased = client.post(&format!("/worker/{worker}/lease"), &json!({ "waitSeconds": 15 })).expect(200);
    let job = &leased["data"][0];
    let body = json!({ "workerId": worker, "epoch": job["epoch"], "error": error, "log": ["tried"] });
    client.post(&format!("/job/{}/fail", text(&job["id"])), &body).expect(200);
    text(&job["id"])
}

fn jobs_and_queues_are_steered_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let (client, operator) = (server.client(), Operator::new(&server));
    let payload = r#"{"b": 1.0, "a": 2}"#;
    let job = operator.json(&[
        "job",
        "enqueue",
        "email",
        "email.send",
        payload,
        "--delay",
        "10m",
        "--tag",
        "a",
        "--metadata",
        "m=n",
    ]);
    let id = text(&job["id"]);
    let kept = client.get(&format!("/job/{id}"));
    assert!(
        String::from_utf8_lossy(&kept.body).contains(&format!(r#""payload":{payload}"#)),
        "byte for byte: {kept:?}"
    );
    assert_eq!(kept.json()["metadata"], json!({ "m": "n" }));

    let list = operator.prints(&["job", "list", "--queue", "email", "--state", "pending", "--tag", "a"]);
    assert!(list.starts_with("ID ") && list.contains(&id) && list.lines().count() == 2, "{list}");
    assert_eq!(operator.json(&["job", "list", "--kind", "other"]), json!([]));
    let moved = operator.prints(&["job", "move", &id, "--at", "2030-01-01T00:00:00Z"]);
    assert_eq!(moved, format!("{id} is due 2030-01-01T00:00:00Z\n"));
    assert_eq!(operator.prints(&["job", "retry", &id]), format!("{id} is pending\n"));
    let queues = operator.prints(&["queue", "list"]);
    assert!(queues.contains("no worker for this kind: email.send"), "{queues}");

    let enqueue = ["job", "enqueue", "email", "email.send", "--max-attempts", "1", "--priority", "0"];
    let printed = operator.prints(&[&enqueue[..], &["--job-name", "\u{1b}[2Jcleared"]].concat());
    let dead = fail_one(&client, "email", "no such\nmailbox");
    assert_eq!(printed, format!("{dead}\n"), "its id alone");
    let list = operator.prints(&["job", "list", "--queue", "email"]);
    assert!(list.contains("[2Jcleared") && !list.contains('\u{1b}'), "{list:?}");
    let shown = operator.prints(&["job", "show", &dead]);
    assert!(shown.contains("no such mailbox") && shown.contains("failed") && shown.contains("tried"), "{shown}");
    assert_eq!(operator.json(&["job", "show", &dead])["state"], "dead");
    operator.is_refused(&["job", "redrive"], "choose dead jobs");
    assert_eq!(operator.prints(&["job", "redrive", "--error", "NO SUCH"]), "redrove 1 job\n");
    assert_eq!(operator.prints(&["job", "cancel", &dead]), format!("{dead} is cancelled\n"));
    operator.is_refused(&["job", "retry", &dead], "cannot be retried");
    assert_eq!(operator.prints(&["job", "delete", &dead, "--yes"]), "deleted 1 job\n");
    operator.is_refused(&["job", "show", &dead], &format!("everhook: job {dead} not found"));
    operator.is_refused(&["job", "show", "a b"], "invalid job");
    operator.is_refused(&["job", "enqueue", "email", "k", "{nonsense"], "not JSON");
    operator.is_refused(&["job", "enqueue", "email", "k", "--priority", "10"], "priority: must be 0 to 9");

    let limited = operator.prints(&["queue", "limit", "email", "--limit", "8", "--rate", "0.5"]);
    assert!(limited.contains("8 at once, 0.5 per second"), "{limited}");
    let limited = operator.prints(&["queue", "limit", "email", "--limit", "none"]);
    assert!(!limited.contains("at once") && limited.contains("0.5 per second"), "{limited}");
    operator.is_refused(&["queue", "limit", "email"], "--limit, --key-limit or --rate is required");
    operator.is_refused(&["queue", "limit", "email", "--limit", "0"], "limit: must be 1 to 100000");
    assert!(operator.prints(&["queue", "pause", "email"]).starts_with("email is paused"));
    assert_eq!(operator.json(&["queue", "show", "email"])["state"], "paused");
    assert_eq!(operator.prints(&["queue", "resume", "email"]), "email is open\n");
    let target = operator.prints(&["queue", "target", "hooks", "http://127.0.0.1:9/"]);
    assert!(target.contains("http://127.0.0.1:9/") && target.contains("whsec_"), "{target}");
    assert!(operator.prints(&["queue", "target", "hooks", "none"]).contains("workers lease its jobs"));
    operator.is_refused(&["queue", "pause", "nowhere"], "queue \"nowhere\" not found");
    operator.is_refused(&["queue", "delete", "email", "--yes"], "has jobs that wait, run or are dead");
    assert_eq!(operator.prints(&["queue", "delete", "hooks", "-y"]), "deleted hooks\n");
    operator.is_refused(&["queue", "show", "hooks"], "queue \"hooks\" not found");
    let workers = operator.prints(&["worker", "list"]);
    assert!(workers.starts_with("ID ") && workers.contains("email"), "{workers}");
    assert_eq!(operator.json(&["worker", "list"])[0]["name"], "w");
}

fn batches_are_mended_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let (client, operator) = (server.client(), Operator::new(&server));
    let application = client.application("Acme").id;
    let id = operator.prints(&["batch", "create", "import", "--application", &application, "--prefix", "import"]);
    let id = id.trim();
    for _ in 0..2 {
        operator.prints(&["job", "enqueue", "imports", "file", "--batch", id, "--max-attempts", "1"]);
        fail_one(&client, "imports", "broken");
    }
    assert_eq!(operator.prints(&["batch", "seal", id]), format!("{id} is sealed: 2 dead\n"));
    let list = operator.prints(&["batch", "list"]);
    assert!(list.contains("import") && list.contains("failed") && list.contains("2 dead"), "{list}");
    let shown = operator.prints(&["batch", "show", id]);
    assert_eq!(shown.matches("broken").count(), 2, "{shown}");
    assert_eq!(operator.prints(&["batch", "retry", id, "--all"]), format!("{id} is in phase 2: 2 pending\n"));
    operator.is_refused(&["batch", "retry", id, "--all"], "has no dead jobs");
    let dead = fail_one(&client, "imports", "broken");
    operator.is_refused(&["batch", "skip", id, "job_23rb8YdGqMT0qIzpgGwdXfHirMu"], "is not in this batch");
    let skipped = operator.prints(&["batch", "skip", id, &dead]);
    assert!(skipped.contains("1 pending, 1 skipped"), "{skipped}");
    assert_eq!(operator.json(&["batch", "show", id])["phase"], 3);
}

fn schedules_are_made_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let (client, operator) = (server.client(), Operator::new(&server));
    let create = ["schedule", "create", "nightly", "--queue", "reports", "--kind", "report.build", "--payload", "[1]"];
    operator.is_refused(
        &[&create[..], &["--cron", "0 25 * * *"]].concat(),
        "cron: invalid cron at field 2 (hour), column 3",
    );
    let berlin = ["--cron", "0 3 * * *", "--timezone", "Europe/Berlin", "--missed", "catch-up", "--catch-up", "3"];
    let created = operator.prints(&[&create[..], &berlin].concat());
    assert!(created.contains("0 3 * * * Europe/Berlin") && created.contains("next runs"), "{created}");
    let list = operator.prints(&["schedule", "list"]);
    assert!(list.contains("nightly") && list.contains("job report.build on reports"), "{list}");
    let ran = operator.prints(&["schedule", "run", "nightly"]);
    let job = ran.strip_prefix("started ").unwrap().trim();
    assert_eq!(client.get(&format!("/job/{job}")).expect(200)["payload"], json!([1]));
    let shown = operator.prints(&["schedule", "show", "nightly"]);
    assert!(shown.contains("manual") && shown.contains(job), "{shown}");
    assert!(operator.prints(&["schedule", "pause", "nightly"]).starts_with("nightly is paused"));
    assert_eq!(operator.json(&["schedule", "show", "nightly"])["state"], "paused");
    assert!(operator.prints(&["schedule", "resume", "nightly"]).starts_with("nightly is active, next run "));
    assert_eq!(operator.prints(&["schedule", "delete", "nightly", "--yes"]), "deleted nightly\n");
    operator.is_refused(&["schedule", "show", "nightly"], "schedule \"nightly\" not found");

    let application = client.application("Acme").id;
    let message =
        ["schedule", "create", "tick", "--every", "3600", "--application", &application, "--event-type", "tick"];
    assert!(operator.prints(&message).contains("message tick to app_"));
    operator.prints(&["schedule", "run", "tick"]);
    operator.is_refused(&["schedule", "list", "--builtin"], "admin key");
    let admin = Operator { key: backend.run(&["key", "create", "--admin"]).trim().to_owned(), ..operator };
    let own = admin.prints(&["schedule", "list", "--builtin"]);
    assert!(own.contains("everhook.prune-jobs") && own.contains("everhook.prune-payloads"), "{own}");
    let page = server.client_with(&admin.key).send_to("GET", "/metrics", &[], b"").unwrap();
    let page = String::from_utf8(page.body).unwrap();
    assert!(page.lines().any(|line| line == "everhook_messages_accepted_total 1"), "{page}");
    assert!(admin.prints(&["schedule", "pause", "everhook.prune-jobs"]).contains("is paused"));
    admin.is_refused(&["schedule", "delete", "everhook.prune-jobs", "--yes"], "the server's own");
}
