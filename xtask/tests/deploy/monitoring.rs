//! Alerts and the dashboard. `crates/everhook/tests` checks that a server has the metrics that they use.

use std::process::Command;

use serde_json::Value;

use crate::{has, read, repository, run, yaml};

fn alerts() -> Vec<Value> {
    yaml(&read("deploy/prometheus/alerts.yml"))["groups"][0]["rules"].as_array().unwrap().clone()
}

#[test]
fn every_alert_has_a_page_in_the_run_book() {
    let book = read("docs/run-book.md");
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert!(book.contains(&format!("\n## {name}\n")), "docs/run-book.md has no section {name}");
        let link = format!("docs/run-book.md#{}", name.to_lowercase());
        assert_eq!(alert["annotations"]["runbook"], link);
        assert!(["warning", "critical"].contains(&alert["labels"]["severity"].as_str().unwrap()), "{name}");
    }
    let sections = book.lines().filter(|line| line.starts_with("## Everhook")).count();
    assert_eq!(sections, alerts().len(), "the run book has a section without an alert");
}

#[test]
fn promtool_accepts_the_alerts_and_they_fire_when_they_should() {
    if !has("promtool") {
        return;
    }
    let folder = repository("deploy/prometheus");
    for arguments in
        [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"], ["check", "config", "prometheus.yml"]]
    {
        run(Command::new("promtool").args(arguments).current_dir(&folder));
    }
}

#[test]
fn the_panels_of_the_dashboard_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/everhook.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let place = |panel: &Value| ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
    for (index, panel) in panels.iter().enumerate() {
        let [x, y, w, h] = place(panel);
        assert!(x + w <= 24, "{panel}");
        for other in &panels[index + 1..] {
            let [left, top, wide, high] = place(other);
            let is_apart = left >= x + w || x >= left + wide || top >= y + h || y >= top + high;
            assert!(is_apart, "{} and {}", panel["title"], other["title"]);
        }
        let has_query = panel["type"] == "row" || !panel["targets"].as_array().unwrap().is_empty();
        assert!(has_query && !panel["title"].as_str().unwrap().is_empty(), "{panel}");
    }
}
