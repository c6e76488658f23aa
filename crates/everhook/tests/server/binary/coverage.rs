//! Every operation of the API has a command, or a reason for having none.

use std::collections::{BTreeMap, BTreeSet};

use everhook_testkit::receiver::{Answer, Receiver};
use serde_json::Value;

use crate::binary::environment::{everhook, repository};

/// Commands that call the API, one per line. FILE is a file with an empty JSON object.
const COMMANDS: &str = r#"
alert list
alert create a --signal dead --above 1
alert show a
alert edit a --above 2
alert delete a --yes
alert test a
alert history a
app list
app create Acme
app show acme
app update acme --name Acme
app delete acme --yes
attempt list acme --endpoint ep
attempt list acme --message m
attempt show acme m atmpt_1
attempt expunge acme m atmpt_1 --yes
audit list
audit verify
batch list
batch create b --application acme --prefix p
batch show batch_1
batch seal batch_1
batch retry batch_1 job_1
batch skip batch_1 job_1
chat-app list
chat-app set slack --secret-file FILE
chat-app test slack ada
chat-app delete slack --yes
dead list
dead list acme
dead show acme ep m
dead redrive acme ep --all
dead redrive acme ep --message m
dead redrive acme ep --message m --dry-run
dead dismiss acme ep m --yes
dead groups
dead group ep_1.timeout
dead ack ep_1.timeout
dead resolve ep_1.timeout
dead reopen ep_1.timeout
dead redrive-group ep_1.timeout --yes
delivery list
delivery list acme
delivery show acme ep m
delivery retry-now acme ep m
endpoint list
endpoint list acme
endpoint create acme http://127.0.0.1:9/
endpoint test acme http://127.0.0.1:9/
endpoint show acme ep
endpoint update acme ep --description text
endpoint delete acme ep --yes
endpoint pause acme ep
endpoint recover acme ep --since 1h
endpoint replay-missing acme ep --since 1h
endpoint cancel acme ep --since 1h --yes
endpoint stats acme ep
endpoint messages acme ep
endpoint send-example acme ep invoice.paid
endpoint filter-test acme ep --event-type invoice.paid
endpoint secret show acme ep
endpoint secret rotate acme ep
endpoint headers show acme ep
endpoint headers set acme ep a:b
endpoint chat preview acme ep
endpoint chat test acme ep
endpoint auth show acme ep
endpoint auth basic acme ep user password
endpoint auth oauth acme ep http://127.0.0.1:9/ id secret
endpoint auth mtls acme ep FILE
endpoint auth ca acme ep FILE
endpoint auth remove acme ep basic --yes
endpoint auth remove acme ep oauth --yes
endpoint auth remove acme ep mtls --yes
environment export
environment import FILE --yes
event-type list
event-type create a
event-type show a
event-type update a --description text
event-type import FILE
event-type archive a
event-type delete a --yes
find app_1
integration list acme
integration create acme name
integration show acme i
integration update acme i --name name
integration rotate-key acme i --yes
integration delete acme i --yes
job enqueue q k
job enqueue-many FILE
job list
job show job_1
job retry job_1
job cancel job_1
job move job_1 --delay 1h
job redrive --all
job delete job_1 --yes
key create --name a --url URL
key list --url URL
key show key_2VbCpnY6TMkLcZDRfgdkYn1ZEdG --url URL
key revoke key_2VbCpnY6TMkLcZDRfgdkYn1ZEdG --yes --url URL
msg send acme a {}
msg send-many acme FILE
msg precheck acme a
msg list
msg list acme
msg show acme m
msg resend acme m ep
msg cancel acme m --yes
msg cancel acme m --endpoint ep --yes
msg expunge acme m --yes
msg expunge acme m n --yes
msg expunge-all acme --yes
node list
node config
once list acme
once show acme k
once reset acme k
operational list
operational create http://127.0.0.1:9/
operational show ops
operational update ops --description text
operational headers ops --set a:b
operational secret ops --rotate
operational delete ops --yes
outbox status
outbox list main
outbox fix main 1 --event-type a
outbox retry main 1
outbox retry main --all
outbox discard main 1 --yes
policy show
policy set {}
policy effective
policy effective --app acme
policy effective --app acme --endpoint ep
poller create acme
poller read acme inbox
poller read acme inbox --consumer c
poller seek acme inbox c --after 1h
portal open acme
portal close acme --yes
portal look
portal set-look --name text
queue list
queue show q
queue pause q
queue resume q
queue limit q --limit 1
queue target q
queue delete q --yes
quota show
quota show acme
quota set --endpoints 5
quota set acme --endpoints 5
replay acme ep --since 1h --yes
schedule list
schedule create s --every 5m --queue q --kind k
schedule show s
schedule edit s --every 10m
schedule pause s
schedule resume s
schedule run s
schedule delete s --yes
status
task list
task show qtask_1
task cancel qtask_1 --yes
usage apps --since 1d
usage event-types
worker list
"#;

/// Operations without a command, each with the reason.
const WITHOUT: &[(&str, &str)] = &[
    ("v1.alert.update", "`alert edit` changes the given fields (PATCH)"),
    ("v1.application.update", "`app update` changes the given fields (PATCH)"),
    ("v1.authentication.dashboard-access", "the older path of `portal open`"),
    ("v1.authentication.logout", "ends the token of a person in the portal; `portal close` ends it for an operator"),
    ("v1.batch.create-job", "`job enqueue --batch` does the same"),
    ("v1.endpoint.redrive", "`dead redrive --all` does the same in a background task"),
    ("v1.endpoint.get-attempt-stats", "`endpoint stats` has the same counts for any period"),
    ("v1.endpoint.get-mtls-config", "`endpoint auth show` reads the state, which has the same"),
    ("v1.endpoint.get-oauth-config", "`endpoint auth show` reads the state, which has the same"),
    ("v1.endpoint.update", "`endpoint update` changes the given fields (PATCH)"),
    ("v1.endpoint.update-headers", "`endpoint headers set` changes the given headers (PATCH)"),
    ("v1.event-type.update", "`event-type update` changes the given fields (PATCH)"),
    ("v1.health.get", "for load balancers; `status` and `doctor` show the health"),
    ("v1.health.ping", "for load balancers; `status` and `doctor` show the health"),
    ("v1.job.complete", "a worker's report on its own job"),
    ("v1.job.fail", "a worker's report on its own job"),
    ("v1.job.progress", "a worker's report on its own job"),
    ("v1.job.snooze", "a worker's report on its own job"),
    ("v1.message-attempt.list-by-endpoint-deprecated", "the older path of `attempt list --message --endpoint`"),
    ("v1.message-attempt.list-by-msg-deprecated", "the older path of `attempt list --message`"),
    ("v1.worker.create", "the session of a worker program"),
    ("v1.worker.delete", "the session of a worker program"),
    ("v1.worker.heartbeat", "the session of a worker program"),
    ("v1.worker.lease", "the session of a worker program"),
];

#[test]
fn every_operation_of_the_api_has_a_command() {
    let operations = operations();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.json");
    std::fs::write(&file, "{}").unwrap();
    let server = Receiver::start();
    server.answer_others(Answer::status(200).body(r#"{"id": "x", "data": [], "done": true, "status": "finished"}"#));
    let mut covered = BTreeSet::new();
    for line in COMMANDS.lines().filter(|line| !line.is_empty()) {
        let word = |word: &str| word.replace("FILE", file.to_str().unwrap()).replace("URL", &server.url(""));
        let before = server.count();
        let output = everhook().args(line.split(' ').map(word)).env("EVERHOOK_URL", server.url("")).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "{line}: {complaint}");
        let requests = server.everything().split_off(before);
        assert!(!requests.is_empty(), "{line} calls nothing: {complaint}");
        for request in requests {
            let path = request.path.split('?').next().unwrap_or_default();
            let found = operation(&operations, &request.method, path);
            covered.insert(found.unwrap_or_else(|| panic!("{line}: there is no {} {path}", request.method)));
        }
    }
    let without: BTreeMap<&str, &str> = WITHOUT.iter().copied().collect();
    let all: BTreeSet<&str> = operations.iter().map(|operation| &*operation.id).collect();
    let missing: Vec<&&str> = all.iter().filter(|id| !covered.contains(**id) && !without.contains_key(**id)).collect();
    assert!(missing.is_empty(), "no command calls {missing:?}: write one, or give the reason in WITHOUT");
    let stale: Vec<&&str> = without.keys().filter(|id| covered.contains(**id) || !all.contains(**id)).collect();
    assert!(stale.is_empty(), "these are called or unknown, and need no reason: {stale:?}");
}

struct Operation {
    id: String,
    method: String,
    path: String,
}

fn operations() -> Vec<Operation> {
    let document = std::fs::read_to_string(repository("openapi.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, methods): (&String, &Value)| {
        let path = path.clone();
        let operation = move |(method, operation): (&String, &Value)| {
            let id = operation["operationId"].as_str()?.to_owned();
            Some(Operation { id, method: method.to_uppercase(), path: path.clone() })
        };
        methods.as_object().unwrap().iter().filter_map(operation).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_path).collect()
}

/// Returns the operation of a request. A literal segment outranks a parameter.
fn operation<'a>(operations: &'a [Operation], method: &str, path: &str) -> Option<&'a str> {
    let segments: Vec<&str> = path.split('/').collect();
    let literals = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        let fits = parts.len() == segments.len()
            && parts.iter().zip(&segments).all(|(part, segment)| part.starts_with('{') || part == segment);
        fits.then(|| parts.iter().filter(|part| !part.starts_with('{')).count())
    };
    let fitting = operations.iter().filter(|operation| operation.method == method);
    let fitting = fitting.filter_map(|operation| Some((literals(&operation.path)?, operation)));
    fitting.max_by_key(|(literals, _)| *literals).map(|(_, operation)| &*operation.id)
}
