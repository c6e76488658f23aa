//! `everhook copy`: from the embedded store to a real PostgreSQL, without loss.

use std::process::Output;

use everhook_testkit::receiver::{Answer, Receiver};
use serde_json::{Value, json};

use crate::binary::client::{Application, Client, Endpoint, text};
use crate::binary::postgres::Session;
use crate::binary::server::{Backend, Server};

/// Tasks of a dead server are taken over after a second. Failed deliveries wait for longer than the test.
const SETTINGS: [(&str, &str); 2] = [("LEASE_SECONDS", "1"), ("RETRY_SCHEDULE", "3600")];

fn copy(from: &Backend, to: &Backend) -> Output {
    let Backend::Sqlite(folder) = from else { panic!("it is on SQLite") };
    let source = format!("sqlite://{}", folder.path().display());
    from.try_run(&["copy", "--from", &source, "--to", url_of(to), "--principal", "ann", "--json"])
}

fn key_file(backend: &Backend) -> String {
    let Backend::Sqlite(folder) = backend else { panic!("it is on SQLite") };
    folder.path().join("everhook.keys").to_str().unwrap().to_owned()
}

fn url_of(backend: &Backend) -> &str {
    let Backend::Postgres(database) = backend else { panic!("it is on PostgreSQL") };
    &database.url
}

fn says_no(output: &Output, wanted: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains(wanted), "{complaint}");
}

/// Everything that the API shows of the messages of an application, newest first.
fn history(application: &Application) -> Vec<Value> {
    let messages = application.client.list(&application.path("/msg"));
    let attempts = |message: &Value| json!(application.attempts(&text(&message["id"])));
    messages.iter().map(|message| json!({ "message": message, "attempts": attempts(message) })).collect()
}

fn claim() -> Value {
    json!({ "eventType": "test.sent", "payload": {}, "once": { "key": "run-1" } })
}

/// Objects of every kind in a store.
struct Stage {
    application: Application,
    good: Endpoint,
    polled: Endpoint,
    job: String,
    receiver: Receiver,
}

impl Stage {
    /// Fills a store: deliveries that have succeeded, deliveries that wait for a retry, a once-slot, jobs, a schedule.
    fn fill(client: &Client) -> Stage {
        let (application, receiver) = (client.application("Acme"), Receiver::start());
        let good = application.endpoint(&receiver.url("/good"));
        application.endpoint(&receiver.url("/bad"));
        let polled = application.endpoint("poll:");
        receiver.answer("/bad", Answer::status(500));
        client.post("/event-type", &json!({ "name": "test.sent", "description": "A test" })).expect(201);
        let claimed = text(&client.post(&application.path("/msg"), &claim()).expect(202)["id"]);
        client.patch("/queue/mail", &json!({ "limit": 3 })).expect(200);
        let job = json!({ "queue": "mail", "kind": "welcome", "payload": { "to": "Ada" } });
        let job = text(&client.post("/job", &job).expect(202)["id"]);
        let report = json!({ "queue": "mail", "kind": "report", "payload": {} });
        client.post("/schedule", &json!({ "name": "nightly", "cron": "0 3 * * *", "job": report })).expect(201);
        for message in application.send_many(40).iter().chain([&claimed]) {
            application.wait_for(message, &good, "success");
            application.wait_for_attempts(message, 2);
        }
        Stage { application, good, polled, job, receiver }
    }

    /// Sends messages whose requests hang, so that a killed server leaves their leases behind.
    fn send_hanging(&self, count: usize) -> Vec<String> {
        self.receiver.hang("/good");
        let sent = self.application.send_many(count);
        self.receiver.wait("the requests are under way", |seen| {
            let good = || seen.iter().filter(|request| request.path == "/good");
            sent.iter().all(|message| good().any(|request| request.message() == message))
        });
        sent
    }

    fn answer_again(&self) {
        self.receiver.release("/good");
        self.receiver.answer("/good", Answer::status(200));
    }

    fn check_objects(&self, client: &Client) {
        let job = client.get(&format!("/job/{}", self.job)).expect(200);
        assert_eq!(job["payload"]["to"], "Ada");
        assert_eq!(client.get("/queue/mail").expect(200)["limit"], 3);
        client.get("/schedule/nightly").expect(200);
        client.get("/event-type/test.sent").expect(200);
        let polled = client.get(&self.application.path(&format!("/poller/{}", self.polled.id))).expect(200);
        assert!(!polled["data"].as_array().unwrap().is_empty(), "{polled}");
        let again = client.post(&self.application.path("/msg"), &claim()).expect(200);
        assert_eq!(again["suppressed"], true, "the slot has its winner: {again}");
    }
}

#[test]
fn a_store_is_copied_with_everything_and_goes_on_delivering_after_a_crash() {
    let (from, to) = (Backend::sqlite(), Backend::postgres());
    let mut server = Server::start(&from, &SETTINGS);
    let mut stage = Stage::fill(&server.client());
    let before = history(&stage.application);
    let last = stage.send_hanging(5);
    says_no(&copy(&from, &to), "is in use by another `everhook serve`");
    server.kill();

    let output = copy(&from, &to);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["rows"].as_u64().unwrap() > 100, "{report}");
    let session = Session::connect(url_of(&to));
    for table in report["tables"].as_array().unwrap() {
        // The copy logs itself in its target.
        let (name, own) = (text(&table["name"]), if table["name"] == "audit" { 2 } else { 0 });
        let rows = (table["rows"].as_u64().unwrap() + own).to_string();
        assert_eq!(session.column(&format!("select count(*)::text from everhook.{name}")), [rows], "{name}");
    }
    says_no(&copy(&from, &to), "is not empty");

    stage.answer_again();
    // Secrets were copied as they are, sealed with the keys of the source.
    let keys = key_file(&from);
    let mut copied = Server::prepare(&to, &[SETTINGS[0], SETTINGS[1], ("SECRETS_KEY_FILE", &keys)]);
    copied.start_again();
    // The copy has the key of the original.
    stage.application.client = copied.client_with(server.key());
    let application = &stage.application;
    for message in &last {
        application.wait_for(message, &stage.good, "success");
    }
    let after = history(application);
    assert_eq!(after[after.len() - before.len()..], before, "older messages with their attempts, unchanged");
    stage.check_objects(&application.client);
    let entries = application.client.list("/audit?action=copy");
    let phases: Vec<_> = entries.iter().map(|entry| (text(&entry["phase"]), text(&entry["principal"]))).collect();
    assert_eq!(phases, [("ended".to_owned(), "ann".to_owned()), ("begun".to_owned(), "ann".to_owned())]);
    assert_eq!(application.client.get("/audit/verify").expect(200)["valid"], true, "the chain goes on");
    let sent = application.send(&json!({ "after": true }));
    application.wait_for(&sent, &stage.good, "success");
    says_no(&to.try_run(&["key", "create"]), "no keys are configured");
    let create = to.command(&["key", "create", "--environment", "new"]).env("EVERHOOK_SECRETS_KEY_FILE", keys).output();
    let key = String::from_utf8(create.unwrap().stdout).unwrap();
    copied.client_with(key.trim()).get("/app").expect(200);

    // A server that is started on the old store by mistake sends nothing.
    server.start_again();
    assert_eq!(server.client().get("/health/ready").expect(200)["egress"], "paused");
    server.wait_for_log("the store was copied to postgres://");
}

#[test]
fn only_a_stopped_store_is_copied_and_only_to_an_empty_postgres() {
    let (from, to) = (Backend::sqlite(), Backend::postgres());
    says_no(&copy(&from, &to), "no Everhook database");
    for (source, target, wanted) in [
        ("postgres://db/x", "postgres://db/y", "--from must have the form sqlite://"),
        ("sqlite:///nowhere", "sqlite:///elsewhere", "a store can be copied to PostgreSQL only"),
        ("sqlite:///nowhere", "postgres://", "names no host"),
    ] {
        let output = from.try_run(&["copy", "--from", source, "--to", target]);
        assert_eq!(output.status.code(), Some(2));
        says_no(&output, wanted);
    }
    let mut server = Server::start(&from, &[]);
    says_no(&copy(&from, &to), "is in use by another `everhook serve`");
    server.terminate();
    server.wait();
    drop(Server::start(&to, &[]));
    says_no(&copy(&from, &to), "is not empty: its table");
    server.start_again();
    let ready = server.client().get("/health/ready").expect(200);
    assert_eq!(ready["egress"], "open", "nothing was copied, so nothing is paused");
}
