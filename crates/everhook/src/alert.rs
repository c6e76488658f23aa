//! `everhook alert`: rules that page the operator, their states and their pages.

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::exit::usage;
use crate::operational::ENDPOINTS;
use crate::output::{Answer, Part, Table};
use crate::remote::{Deletion, Remote, named};
use crate::table::{cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum AlertCommand {
    /// List alerts with their conditions and states.
    List,
    /// Create an alert and show it. Pages go to operational endpoints.
    #[command(after_help = "Examples:
  everhook alert create dead-letters --signal dead --above 0
  everhook alert create backlog --signal oldest-due-age --above 300 --for 2m --to ops-room
  everhook alert create failures --signal failure-rate --above 0.2 --window 10m --escalate-after 30m --escalate-to boss
  everhook alert create acme --signal dead --above 10 --endpoint ep_2d…
  everhook alert create mail --signal queue-depth --queue mail --change 1000 --window 15m")]
    Create {
        /// Name of the alert, such as dead-letters.
        name: String,
        /// Number to watch.
        #[arg(long)]
        signal: Signal,
        #[command(flatten)]
        rule: Box<Rule>,
    },
    /// Show an alert with its state and its latest page.
    Show {
        /// Name of the alert, such as dead-letters.
        name: String,
    },
    /// Change an alert. Options that are not given keep their values.
    #[command(after_help = "Examples:
  everhook alert edit dead-letters --above 10 --cooldown 6h
  everhook alert edit dead-letters --to all --disable")]
    Edit {
        /// Name of the alert, such as dead-letters.
        name: String,
        /// Number to watch.
        #[arg(long)]
        signal: Option<Signal>,
        #[command(flatten)]
        rule: Box<Rule>,
        /// Send no pages to further destinations.
        #[arg(long, conflicts_with_all = ["escalate_to", "escalate_after", "escalate_after_pages"])]
        no_escalation: bool,
        /// Evaluate the rule again.
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
    },
    /// Delete an alert with its history.
    Delete {
        /// Name of the alert, such as dead-letters.
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Send a test page to all destinations of an alert.
    Test {
        /// Name of the alert, such as dead-letters.
        name: String,
    },
    /// List the latest pages of an alert, the newest first.
    History {
        /// Name of the alert, such as dead-letters.
        name: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Signal {
    /// Dead deliveries and jobs.
    Dead,
    /// Deliveries and jobs that are due.
    Due,
    /// Seconds for which the oldest due task has waited.
    OldestDueAge,
    /// Share of attempts that failed in the window, from 0 to 1.
    FailureRate,
    /// Waiting jobs of a queue.
    QueueDepth,
}

#[derive(Debug, Args)]
pub(crate) struct Rule {
    /// Page while the number is above this.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["below", "change"])]
    above: Option<f64>,
    /// Page while the number is below this.
    #[arg(long, value_name = "NUMBER", conflicts_with = "change")]
    below: Option<f64>,
    /// Page while the number differs by more than this from a value in the window.
    #[arg(long, value_name = "NUMBER")]
    change: Option<f64>,
    /// Queue of the signal queue-depth.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Watch only the deliveries to this endpoint; `none` watches the environment again. Not for queue-depth.
    #[arg(long, value_name = "ID", conflicts_with = "queue")]
    endpoint: Option<String>,
    /// Time over which a failure rate or a change is measured, such as 10m.
    #[arg(long, value_name = "DURATION", value_parser = crate::when::seconds)]
    window: Option<u64>,
    /// Time for which the condition must hold before the first page [default: 1m].
    #[arg(long = "for", value_name = "DURATION", value_parser = crate::when::seconds)]
    hold: Option<u64>,
    /// Time for which the condition must be gone before the alert is resolved [default: 5m].
    #[arg(long, value_name = "DURATION", value_parser = crate::when::seconds)]
    resolve_after: Option<u64>,
    /// Time between two pages of a triggered alert [default: 1h].
    #[arg(long, value_name = "DURATION", value_parser = crate::when::seconds)]
    cooldown: Option<u64>,
    /// Operational endpoint that gets the pages, by id or uid; may be repeated. `all` means every one that wants the
    /// events, which is the default.
    #[arg(long, value_name = "ID or UID")]
    to: Vec<String>,
    /// Operational endpoint that also gets the pages of an alert that stays triggered; may be repeated.
    #[arg(long, value_name = "ID or UID")]
    escalate_to: Vec<String>,
    /// Escalate this long after the alert was triggered.
    #[arg(long, value_name = "DURATION", value_parser = crate::when::seconds, requires = "escalate_to")]
    escalate_after: Option<u64>,
    /// Escalate with this many pages after the first one.
    #[arg(long, value_name = "COUNT", requires = "escalate_to")]
    escalate_after_pages: Option<u32>,
    /// Text for the reader of a page, such as the steps to take.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Do not evaluate the rule.
    #[arg(long)]
    disable: bool,
}

const NOBODY: &str = "no operational endpoint gets the pages: `everhook operational create` creates one";

impl AlertCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            AlertCommand::List => {
                let alerts = remote.get_all("/alert").await?;
                let list = Answer::list(alerts, ["NAME", "STATE", "WHEN", "SINCE", "LAST PAGE"], |alert| {
                    let [name, state] = cells(alert, ["name", "state"]);
                    [name, state, condition(alert), time(alert, "since"), time(&alert["lastPage"], "at")]
                });
                Ok(list.if_empty("no alerts: `everhook alert create` creates one"))
            }
            AlertCommand::Create { name, signal, rule } => {
                let mut body = rule.body()?;
                if !body.contains_key("condition") {
                    return Err(usage("--above, --below or --change is required"));
                }
                body.insert("name".to_owned(), json!(name));
                body.insert("signal".to_owned(), json!(signal));
                let created = remote.post_body("/alert", &Value::Object(body)).await?;
                // An alert without destinations pages every operational endpoint, and there may be none.
                let is_unheard = created["destinations"].is_null() && remote.get_all(ENDPOINTS).await?.is_empty();
                Ok(shown(created).note_if(is_unheard, NOBODY))
            }
            AlertCommand::Show { name } => Ok(shown(remote.get(&path(&name)?).await?)),
            AlertCommand::Edit { name, signal, rule, no_escalation, enable } => {
                let mut body = rule.body()?;
                body.extend(signal.map(|signal| ("signal".to_owned(), json!(signal))));
                body.extend(no_escalation.then(|| ("escalation".to_owned(), Value::Null)));
                body.extend(enable.then(|| ("disabled".to_owned(), json!(false))));
                if body.is_empty() {
                    return Err(usage("an option with a new value is required, such as --above 10"));
                }
                Ok(shown(remote.patch(&path(&name)?, &Value::Object(body)).await?))
            }
            AlertCommand::Delete { name, consent } => {
                let what = format!("alert {name} with its history");
                remote.delete_object(consent, Deletion { path: path(&name)?, name, what }).await
            }
            AlertCommand::Test { name } => {
                let sent = remote.post(&format!("{}/test", path(&name)?)).await?;
                let messages = sent["messages"].as_array().map_or(0, Vec::len);
                let text = format!("sent a test page to {messages} endpoints: `everhook alert test --json` shows them");
                Ok(Answer::line(sent, text))
            }
            AlertCommand::History { name } => {
                let pages = remote.get(&format!("{}/page", path(&name)?)).await?;
                let pages = pages["data"].as_array().cloned().unwrap_or_default();
                let list = Answer::list(pages, ["TIME", "PAGE", "VALUE", "ESCALATED", "MESSAGES"], |page| {
                    let [kind, value] = cells(page, ["kind", "value"]);
                    [time(page, "at"), kind, value, yes(page, "escalated"), messages(page)]
                });
                Ok(list.if_empty("no pages yet"))
            }
        }
    }
}

impl Rule {
    /// The given members as JSON.
    fn body(self) -> anyhow::Result<Map<String, Value>> {
        let conditions = [("above", self.above), ("below", self.below), ("change", self.change)];
        let condition = conditions.into_iter().find_map(|(name, value)| Some((name, value?)));
        let to = match self.to.as_slice() {
            [] => None,
            [all] if all == "all" => Some(Value::Null),
            names if names.iter().any(|name| name == "all") => {
                return Err(usage("--to all cannot be combined with other destinations"));
            }
            names => Some(json!(names)),
        };
        let escalation = (!self.escalate_to.is_empty()).then(|| {
            json!({
                "afterSeconds": self.escalate_after,
                "afterOngoing": self.escalate_after_pages,
                "destinations": self.escalate_to,
            })
        });
        let members = [
            ("condition", condition.map(|(name, _)| json!(name))),
            ("threshold", condition.map(|(_, value)| json!(value))),
            ("queue", self.queue.map(|queue| json!(queue))),
            ("endpointId", self.endpoint.map(|id| if id == "none" { Value::Null } else { json!(id) })),
            ("windowSeconds", self.window.map(|seconds| json!(seconds))),
            ("forSeconds", self.hold.map(|seconds| json!(seconds))),
            ("resolveAfterSeconds", self.resolve_after.map(|seconds| json!(seconds))),
            ("cooldownSeconds", self.cooldown.map(|seconds| json!(seconds))),
            ("destinations", to),
            ("escalation", escalation),
            ("description", self.description.map(|text| json!(text))),
            ("disabled", self.disable.then_some(json!(true))),
        ];
        Ok(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }
}

fn shown(alert: Value) -> Answer {
    let escalation = match &alert["escalation"] {
        Value::Null => String::new(),
        escalation => {
            let [seconds, pages] = cells(escalation, ["afterSeconds", "afterOngoing"]);
            let by_time = (!seconds.is_empty()).then(|| format!("after {seconds} s"));
            let by_count = (!pages.is_empty()).then(|| format!("after {pages} ongoing pages"));
            let when: Vec<_> = by_time.into_iter().chain(by_count).collect();
            format!("{} to {}", when.join(" or "), names(escalation))
        }
    };
    let [hold, resolve, cooldown] = cells(&alert, ["forSeconds", "resolveAfterSeconds", "cooldownSeconds"]);
    let facts = vec![
        ("name", cell(&alert, "name")),
        ("state", cell(&alert, "state")),
        ("since", time(&alert, "since")),
        ("clear since", time(&alert, "clearSince")),
        ("when", condition(&alert)),
        ("times", format!("for {hold} s, resolved after {resolve} s, cooldown {cooldown} s")),
        ("pages go to", if alert["destinations"].is_null() { "all".to_owned() } else { names(&alert) }),
        ("escalation", escalation),
        ("description", cell(&alert, "description")),
        ("changed", time(&alert, "updatedAt")),
    ];
    let last = alert["lastPage"].as_object().map(|page| Value::Object(page.clone()));
    let last = Table::new(["LAST PAGE", "AT", "VALUE", "MESSAGES"], last.iter(), |page| {
        let [kind, value] = cells(page, ["kind", "value"]);
        [kind, time(page, "at"), value, messages(page)]
    });
    Answer::object(alert, vec![Part::Facts(facts), Part::Table(last)])
}

fn condition(alert: &Value) -> String {
    let [signal, condition, threshold, window] = cells(alert, ["signal", "condition", "threshold", "windowSeconds"]);
    let of = cells(alert, ["queue", "endpointId"]).concat();
    let of = if of.is_empty() { of } else { format!(" of {of}") };
    let window = if window.is_empty() { window } else { format!(" in {window} s") };
    format!("{signal}{of} {condition} {threshold}{window}")
}

fn names(object: &Value) -> String {
    let names = object["destinations"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(" ")
}

fn messages(page: &Value) -> String {
    let ids = page["messages"].as_array().into_iter().flatten().map(|message| cell(message, "msgId"));
    let ids: Vec<_> = ids.collect();
    if ids.is_empty() { "nobody was told".to_owned() } else { ids.join(" ") }
}

fn yes(object: &Value, key: &str) -> String {
    if object[key] == true { "yes" } else { "no" }.to_owned()
}

fn path(name: &str) -> anyhow::Result<String> {
    Ok(format!("/alert/{}", named("alert", name)?))
}
