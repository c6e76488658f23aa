//! The Helm chart: rendered with a template engine of the same language, and checked as YAML.

use std::collections::HashMap;

use gtmpl::{Context, FuncError, Template};
use gtmpl_value::Value as Word;
use serde_json::{Value, json};

use crate::{assert_setting, read, repository, yaml};

const CHART: &str = "deploy/helm/everhook";

/// Renders every template with these values merged into the defaults. Returns the objects by their kind.
fn render(changes: Value) -> HashMap<String, Value> {
    let mut values = yaml(&read(&format!("{CHART}/values.yaml")));
    merge(&mut values, changes);
    let chart = yaml(&read(&format!("{CHART}/Chart.yaml")));
    let chart = json!({ "Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"] });
    let release = json!({ "Name": "hooks", "Namespace": "default", "Service": "Helm" });
    let context = word(&json!({ "Values": values, "Chart": chart, "Release": release }));
    let labels = read(&format!("{CHART}/templates/_labels.tpl"));
    let files = std::fs::read_dir(repository(&format!("{CHART}/templates"))).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(|file| file.extension().is_some_and(|it| it == "yaml"));
    let texts = files.map(|file| {
        let mut template = Template::default();
        template.add_funcs(&[
            ("quote", quote as gtmpl::Func),
            ("toJson", to_json),
            ("default", default),
            ("upper", upper),
            ("add", add),
        ]);
        let text = format!("{labels}{}", std::fs::read_to_string(&file).unwrap());
        template.parse(text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        template.render(&Context::from(context.clone())).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    });
    let objects = texts.filter(|text| !text.trim().is_empty()).map(|text| yaml(&text));
    objects.map(|object| (object["kind"].as_str().unwrap().to_owned(), object)).collect()
}

fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            changes.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, changes) => *into = changes,
    }
}

fn word(value: &Value) -> Word {
    match value {
        Value::Null => Word::Nil,
        Value::Bool(value) => Word::from(*value),
        Value::Number(number) => Word::from(number.as_i64().expect("the values have whole numbers")),
        Value::String(text) => Word::from(text.clone()),
        Value::Array(list) => Word::Array(list.iter().map(word).collect()),
        Value::Object(fields) => Word::Map(fields.iter().map(|(key, value)| (key.clone(), word(value))).collect()),
    }
}

fn plain(word: &Word) -> Value {
    match word {
        Word::Bool(value) => json!(value),
        Word::String(text) => json!(text),
        Word::Array(list) => list.iter().map(plain).collect(),
        Word::Map(fields) | Word::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), plain(value))).collect())
        }
        Word::Number(number) => json!(number.as_i64()),
        _ => Value::Null,
    }
}

fn quote(words: &[Word]) -> Result<Word, FuncError> {
    Ok(Word::from(match plain(&words[0]) {
        Value::String(text) => json!(text).to_string(),
        other => format!("\"{other}\""),
    }))
}

fn to_json(words: &[Word]) -> Result<Word, FuncError> {
    Ok(Word::from(plain(&words[0]).to_string()))
}

fn default(words: &[Word]) -> Result<Word, FuncError> {
    let is_empty = matches!(plain(&words[1]), Value::Null) || plain(&words[1]) == "";
    Ok(words[usize::from(!is_empty)].clone())
}

fn upper(words: &[Word]) -> Result<Word, FuncError> {
    Ok(Word::from(words[0].to_string().to_uppercase()))
}

fn add(words: &[Word]) -> Result<Word, FuncError> {
    Ok(Word::from(words.iter().filter_map(|word| plain(word).as_i64()).sum::<i64>()))
}

#[test]
fn the_chart_runs_replicas_with_probes_and_a_disruption_budget() {
    let objects = render(json!({}));
    let mut kinds: Vec<_> = objects.keys().map(String::as_str).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["Deployment", "PodDisruptionBudget", "Service"]);
    let pod = &objects["Deployment"]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(objects["Deployment"]["spec"]["replicas"], 3);
    assert_eq!(container["image"], format!("everhook:{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(container["livenessProbe"]["httpGet"], json!({ "path": "/api/v1/health", "port": "ops" }));
    assert_eq!(container["readinessProbe"]["httpGet"], json!({ "path": "/api/v1/health/ready", "port": "ops" }));
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["terminationGracePeriodSeconds"], 45);
    assert_eq!(objects["PodDisruptionBudget"]["spec"]["maxUnavailable"], 1);
    let selector = &objects["Deployment"]["spec"]["selector"]["matchLabels"];
    let labels = &objects["Deployment"]["spec"]["template"]["metadata"]["labels"];
    for (name, value) in selector.as_object().unwrap() {
        assert_eq!(labels[name], *value, "the deployment selects its pods");
        assert_eq!(objects["Service"]["spec"]["selector"][name], *value);
        assert_eq!(objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"][name], *value);
    }
    for variable in container["env"].as_array().unwrap() {
        assert_setting(variable["name"].as_str().unwrap());
    }
    let database = container["env"].as_array().unwrap().iter().find(|it| it["name"] == "EVERHOOK_DATABASE").unwrap();
    assert_eq!(database["valueFrom"]["secretKeyRef"], json!({ "name": "everhook", "key": "database" }));
}

#[test]
fn every_option_of_the_chart_takes_effect() {
    let objects = render(json!({
        "bootstrapKey": { "secret": "first" },
        "settings": { "egress_allow": "10.0.0.0/8" },
        "image": { "tag": "2.0.0", "pullSecrets": [{ "name": "registry" }] },
        "ingress": { "enabled": true, "host": "hooks.example.com", "tlsSecret": "tls", "className": "nginx" },
        "podMonitor": { "enabled": true, "labels": { "release": "monitoring" } },
        "networkPolicy": { "enabled": true },
        "disruptionBudget": { "enabled": false },
        "podLabels": { "team": "hooks" },
        "nodeSelector": { "disk": "fast" },
        "stopDelaySeconds": 30,
    }));
    let mut kinds: Vec<_> = objects.keys().map(String::as_str).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["Deployment", "Ingress", "NetworkPolicy", "PodMonitor", "Service"]);
    let template = &objects["Deployment"]["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["team"], "hooks");
    assert_eq!(template["spec"]["nodeSelector"]["disk"], "fast");
    assert_eq!(template["spec"]["imagePullSecrets"], json!([{ "name": "registry" }]));
    assert_eq!(template["spec"]["terminationGracePeriodSeconds"], 65);
    let container = &template["spec"]["containers"][0];
    assert_eq!(container["image"], "everhook:2.0.0");
    let names: Vec<_> = container["env"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"EVERHOOK_BOOTSTRAP_KEY") && names.contains(&"EVERHOOK_EGRESS_ALLOW"), "{names:?}");
    assert_eq!(objects["Ingress"]["spec"]["tls"][0]["secretName"], "tls");
    assert_eq!(objects["PodMonitor"]["metadata"]["labels"]["release"], "monitoring");
    assert_eq!(objects["NetworkPolicy"]["spec"]["ingress"][1]["ports"][0]["port"], "ops");
}

#[test]
fn the_chart_has_the_version_of_the_packages() {
    let chart = yaml(&read(&format!("{CHART}/Chart.yaml")));
    assert_eq!(
        (&chart["version"], &chart["appVersion"]),
        (&json!(env!("CARGO_PKG_VERSION")), &json!(env!("CARGO_PKG_VERSION")))
    );
}
