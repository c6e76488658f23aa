//! `everhook import svix`: a Svix database becomes applications whose ids and signatures stay valid.

use std::process::Output;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everhook_core::id::DEFAULT_ORG;
use everhook_testkit::receiver::Receiver;
use serde_json::{Value, json};

use crate::binary::client::Application;
use crate::binary::postgres::{Database, execute};
use crate::binary::server::{Backend, Server, on_both_stores};
use crate::binary::signature::{Signed, is_signed};

on_both_stores! {
    signatures_ids_and_settings_survive_an_import_from_svix,
    an_import_can_be_repeated_and_updates_only_when_told,
    an_import_names_the_objects_that_it_leaves_out,
    a_dry_run_of_an_import_writes_nothing,
}

const APP: &str = "app_1srOrx2ZWZBpBUvZwXKQmoEYga2";
const PLAIN: &str = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga3";
const ENCRYPTED: &str = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga4";

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const STORED: &str = "0131f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0";
/// A secret, encrypted by libsodium with the key of this main secret.
const MAIN_SECRET: &str = "the main secret";
const SECRET_BEHIND_MAIN: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const STORED_BEHIND_MAIN: &str = "8117161514131211100f0e0d0c0b0a090807060504030201007fdef3597c1b6d9fbb9a9c7e2fc9a7f4ad\
                                  067fa1b093dad5cca151380c8ed8e8d5f3f41256a40535ab5f83a97c094106";
/// A rotated secret of 24 bytes.
const OLD_SECRET: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH";

/// The tables that the import reads, as a Svix server creates them.
const TABLES: &str = "
create table application (
    id varchar primary key, created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
    org_id varchar not null, uid varchar, name varchar not null, rate_limit int, deleted bool not null default false
);
create table applicationmetadata (
    created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
    id varchar primary key, data jsonb not null
);
create table endpoint (
    id varchar primary key, created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
    app_id varchar not null, key bytea not null, url varchar not null, description varchar not null default '',
    event_types_ids jsonb, version int not null default 1, rate_limit int, deleted bool not null default false,
    disabled bool not null default false, first_failure_at timestamptz, uid varchar, old_keys jsonb, channels jsonb,
    headers jsonb
);
create table endpointmetadata (
    created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
    id varchar primary key, data jsonb not null
);
create table eventtype (
    created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
    id varchar primary key, org_id varchar not null, description varchar not null, deleted bool not null default false,
    schemas json, name varchar not null, feature_flag text, deprecated bool not null default false
);
insert into eventtype (id, org_id, description, name)
    values ('evtype_0', 'org_00000000000SvixManagement00', 'Svix itself', 'endpoint.created');
";

/// A Svix database, and a receiver that its endpoints point to.
struct Svix {
    database: Database,
    receiver: Receiver,
}

impl Svix {
    fn new() -> Svix {
        let svix = Svix { database: Database::create(), receiver: Receiver::start() };
        svix.execute(TABLES);
        let old = format!("01{}", "07".repeat(24));
        let old = STANDARD.encode(hex(&old));
        let plain = svix.receiver.url("/plain");
        let encrypted = svix.receiver.url("/encrypted");
        svix.execute(&format!(
            "
            insert into application (id, org_id, uid, name, rate_limit)
                values ('{APP}', '{DEFAULT_ORG}', 'acme', 'Acme', 50);
            insert into application (id, org_id, name, deleted)
                values ('app_1srOrx2ZWZBpBUvZwXKQmoEYga9', '{DEFAULT_ORG}', 'Deleted', true);
            insert into applicationmetadata (id, data) values ('{APP}', '{{\"plan\": \"pro\"}}');
            insert into eventtype (id, org_id, description, name, schemas, feature_flag, deprecated) values
                ('evtype_1', '{DEFAULT_ORG}', 'Paid', 'invoice.paid', '{{\"1\": {{\"type\": \"object\"}}}}', 'beta', false),
                ('evtype_2', '{DEFAULT_ORG}', 'Old', 'invoice.sent', null, null, true);
            insert into endpoint (id, app_id, key, url, description, event_types_ids, rate_limit, uid, old_keys, headers)
                values ('{PLAIN}', '{APP}', '\\x{STORED}', '{plain}', 'Books', '[\"invoice.paid\"]', 7, 'books',
                    '[{{\"expiration\": \"2099-11-17T01:52:35.507393383Z\", \"signingKey\": \"{old}\"}},
                      {{\"expiration\": \"2020-11-17T01:52:35Z\", \"signingKey\": \"broken\"}}]',
                    '{{\"X-Team\": \"books\"}}');
            insert into endpointmetadata (id, data) values ('{PLAIN}', '{{\"a\": \"b\"}}');
            insert into endpoint (id, app_id, key, url, channels, disabled)
                values ('{ENCRYPTED}', '{APP}', '\\x{STORED_BEHIND_MAIN}', '{encrypted}', '[\"audit\"]', true);
            "
        ));
        svix
    }

    fn execute(&self, statements: &str) {
        execute(&self.database.url, statements).unwrap();
    }

    /// Runs the import on a store.
    fn import(&self, backend: &Backend, more: &[&str]) -> Output {
        let arguments = [&["import", "svix", "--from", &self.database.url][..], more].concat();
        backend.command(&arguments).env("EVERHOOK_EGRESS_ALLOW", "127.0.0.0/8").output().unwrap()
    }

    /// Runs an import that leaves nothing out, and returns its report.
    #[track_caller]
    fn import_all(&self, backend: &Backend, more: &[&str]) -> Value {
        let more = [&["--main-secret", MAIN_SECRET, "--json"][..], more].concat();
        let output = self.import(backend, &more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Counts of one kind: created, updated, unchanged, failed.
fn counts(report: &Value, kind: &str) -> [u64; 4] {
    ["created", "updated", "unchanged", "failed"].map(|step| report[kind][step].as_u64().unwrap())
}

fn signatures_ids_and_settings_survive_an_import_from_svix(backend: Arc<Backend>) {
    let svix = Svix::new();
    // The server runs during the import and notices the new objects.
    let server = Server::start(&backend, &[]);
    let client = server.client();
    assert_eq!(client.get(&format!("/app/{APP}")).status, 404);
    let report = svix.import_all(&backend, &[]);
    assert_eq!(counts(&report, "applications"), [1, 0, 0, 0], "{report}");
    assert_eq!(counts(&report, "endpoints"), [2, 0, 0, 0], "{report}");
    assert_eq!(counts(&report, "eventTypes"), [2, 0, 0, 0], "{report}");
    let application = client.get("/app/acme").expect(200);
    assert_eq!(application["id"], APP);
    assert_eq!(application["name"], "Acme");
    assert_eq!(application["throttleRate"], 50);
    assert_eq!(application["metadata"], json!({ "plan": "pro" }));
    let endpoint = client.get("/app/acme/endpoint/books").expect(200);
    assert_eq!(endpoint["id"], PLAIN);
    assert_eq!(endpoint["description"], "Books");
    assert_eq!(endpoint["eventTypes"], json!(["invoice.paid"]));
    assert_eq!(endpoint["throttleRate"], 7);
    assert_eq!(endpoint["metadata"], json!({ "a": "b" }));
    assert_eq!(endpoint["disabled"], false);
    let disabled = client.get(&format!("/app/acme/endpoint/{ENCRYPTED}")).expect(200);
    assert_eq!(disabled["channels"], json!(["audit"]));
    assert_eq!(disabled["disabled"], true);
    let types = client.list("/event-type?include_archived=true&with_content=true");
    assert_eq!(types.len(), 2, "event types of Svix itself are left out: {types:?}");
    assert_eq!(types[0]["schemas"], json!({ "1": { "type": "object" } }));
    assert_eq!(types[0]["featureFlag"], "beta");
    assert_eq!(types[1]["archived"], true);
    client.patch(&format!("/app/acme/endpoint/{ENCRYPTED}"), &json!({ "disabled": false })).expect(200);

    let message = json!({ "eventType": "invoice.paid", "payload": { "n": 1 }, "channels": ["audit"] });
    client.post("/app/acme/msg", &message).expect(202);
    let plain = &svix.receiver.wait_for("/plain", 1)[0];
    plain.verify(SECRET);
    assert!(is_signed(plain, "svix", OLD_SECRET), "a rotated secret goes on signing");
    assert_eq!(plain.header("x-team"), "books");
    svix.receiver.wait_for("/encrypted", 1)[0].verify(SECRET_BEHIND_MAIN);
}

fn an_import_can_be_repeated_and_updates_only_when_told(backend: Arc<Backend>) {
    let svix = Svix::new();
    let server = Server::start(&backend, &[]);
    let client = server.client();
    svix.import_all(&backend, &[]);
    let application = Application { client: client.clone(), id: APP.to_owned() };
    let name = || client.get(&application.path("")).expect(200)["name"].clone();
    svix.execute("update application set name = 'Acme Inc.' where uid = 'acme'");
    let again = svix.import_all(&backend, &[]);
    assert_eq!(counts(&again, "applications"), [0, 0, 1, 0], "{again}");
    assert_eq!(name(), "Acme");
    let updated = svix.import_all(&backend, &["--update"]);
    assert_eq!(counts(&updated, "applications"), [0, 1, 0, 0], "{updated}");
    assert_eq!(counts(&updated, "endpoints"), [0, 0, 2, 0], "{updated}");
    assert_eq!(counts(&updated, "eventTypes"), [0, 0, 2, 0], "{updated}");
    assert_eq!(name(), "Acme Inc.");
    // A deleted object does not come back, and the command says so.
    client.delete(&application.path("/endpoint/books")).expect(204);
    let output = svix.import(&backend, &["--main-secret", MAIN_SECRET]);
    assert!(!output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("not imported: endpoint {APP}/{PLAIN}: was deleted in Everhook")), "{text}");
}

fn an_import_names_the_objects_that_it_leaves_out(backend: Arc<Backend>) {
    let svix = Svix::new();
    let _server = Server::start(&backend, &[]);
    svix.execute(&format!("update endpoint set headers = '{{\"Host\": \"x\"}}' where id = '{PLAIN}'"));
    let output = svix.import(&backend, &["--json"]);
    assert!(!output.status.success());
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("2 objects were not imported"), "{complaint}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(counts(&report, "endpoints"), [0, 0, 0, 2], "{report}");
    let errors = report["failures"].to_string();
    assert!(errors.contains("headers.Host is a header that cannot be set"), "{errors}");
    assert!(errors.contains(ENCRYPTED) && errors.contains("secret is encrypted"), "{errors}");
    assert!(!errors.contains("whsec_") && !errors.contains(&STORED[2..]), "secrets stay secret: {errors}");

    svix.execute(
        "insert into application (id, org_id, name) values ('app_2srOrx2ZWZBpBUvZwXKQmoEYga2', 'org_2', 'Two')",
    );
    let output = svix.import(&backend, &[]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && complaint.contains("--org"), "{complaint}");
    assert!(complaint.contains("org_2 (1 applications)"), "{complaint}");
}

fn a_dry_run_of_an_import_writes_nothing(backend: Arc<Backend>) {
    let svix = Svix::new();
    let server = Server::start(&backend, &[]);
    let report = svix.import_all(&backend, &["--dry-run"]);
    assert_eq!(report["dryRun"], true);
    assert_eq!(counts(&report, "endpoints"), [2, 0, 0, 0], "{report}");
    let report = svix.import_all(&backend, &["--dry-run", "--environment", "elsewhere"]);
    assert_eq!(counts(&report, "applications"), [1, 0, 0, 0], "{report}");
    assert!(server.client().list("/app").is_empty() && server.client().list("/event-type").is_empty());
    // The name of the environment was not created either.
    let keys = backend.run(&["key", "list"]);
    assert!(!keys.contains("elsewhere"), "{keys}");
}
