//! The meaning of a platform's reply, by the platform's own rule.
//!
//! Many platforms answer 200 and say in the body that nothing was posted. A reply that the platform counts as success
//! is never a failure here, because a retry would post the message twice.

use std::time::Duration;

use everhook_core::chat::{ChatKind, TeamsForm, teams_form};
use everhook_core::limits::RETRY_DELAY_MAX;
use everhook_core::outcome::{Class, Outcome, Reply, SendFailure, classify};
use everhook_core::policy::statuses::FinalStatuses;
use everhook_core::time::Timestamp;
use serde_json::Value;
use url::Url;

/// A reply's meaning for the delivery, and one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub class: Class,
    pub outcome: Outcome,
    pub explanation: String,
}

/// The meaning of a reply before the retry rules.
enum Meaning {
    Posted,
    /// The whole endpoint waits.
    Throttled(Option<Duration>),
    /// The webhook does not exist any more.
    Gone(String),
    /// The platform refuses this message, and would refuse it again.
    Refused(String),
    Failed(String),
}

/// Platforms that count per minute lift a limit after a minute.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Judges the result of a request.
pub fn judge(
    kind: ChatKind,
    url: &str,
    sent: &Result<Reply, SendFailure>,
    now: Timestamp,
    finals: &FinalStatuses,
) -> Judgement {
    let reply = match sent {
        Ok(reply) => reply,
        Err(failure) => {
            let (class, outcome) = classify(sent, now, finals);
            return Judgement { class, outcome, explanation: failure.detail.clone() };
        }
    };
    match meaning(kind, url, reply) {
        Meaning::Posted => Judgement {
            class: Class::Success,
            outcome: Outcome::Success,
            explanation: format!("{kind} has posted the message"),
        },
        Meaning::Gone(reason) => Judgement {
            class: Class::Gone,
            outcome: Outcome::Gone,
            explanation: format!("the webhook does not exist any more ({reason}): create a new one and change the URL"),
        },
        Meaning::Refused(reason) => Judgement {
            class: Class::Status,
            outcome: Outcome::Rejected,
            explanation: format!("{kind} refuses this message: {reason}"),
        },
        Meaning::Throttled(wait) => {
            // The header of the reply is the standard form, and the body is exact.
            let wait = wait.or_else(|| asked(reply, now)).unwrap_or(MINUTE).min(RETRY_DELAY_MAX);
            let retry_after = Some(wait);
            let seconds = wait.as_secs_f64();
            let explanation = format!("{kind} accepts no more messages for now: the endpoint waits {seconds} s");
            Judgement { class: Class::Throttled, outcome: Outcome::Throttled { retry_after }, explanation }
        }
        Meaning::Failed(reason) => {
            // A status that says success would be read as one.
            let status = if reply.status < 300 { 500 } else { reply.status };
            let failed = Reply { status, wish: None, ..reply.clone() };
            let (class, outcome) = classify(&Ok(failed), now, &FinalStatuses::default());
            let is_final = finals.contains(reply.status);
            let outcome = if is_final { Outcome::Rejected } else { outcome };
            Judgement { class, outcome, explanation: format!("{kind} did not post the message: {reason}") }
        }
    }
}

/// Returns the wait that the header of a throttled reply asks for.
pub(crate) fn asked(reply: &Reply, now: Timestamp) -> Option<Duration> {
    let throttled = Reply { status: 429, wish: None, ..reply.clone() };
    match classify(&Ok(throttled), now, &FinalStatuses::default()) {
        (_, Outcome::Throttled { retry_after }) => retry_after,
        _ => None,
    }
}

fn meaning(kind: ChatKind, url: &str, reply: &Reply) -> Meaning {
    let text = String::from_utf8_lossy(&reply.body);
    let text = text.trim();
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    match kind {
        ChatKind::Slack => slack(reply.status, text, &json),
        ChatKind::Discord => discord(reply.status, text, &json),
        ChatKind::Teams => match Url::parse(url).map(|url| teams_form(&url)) {
            Ok(TeamsForm::Connector) => teams_connector(reply.status, text),
            Ok(TeamsForm::Workflow) | Err(_) => by_status(reply.status, text, "WorkflowTriggerIsNotEnabled"),
        },
        ChatKind::GoogleChat => by_status(reply.status, text, "UNAVAILABLE"),
        ChatKind::Feishu | ChatKind::Lark => feishu(reply.status, text, &json),
        ChatKind::DingTalk => dingtalk(reply.status, text, &json),
        ChatKind::WeCom => wecom(reply.status, text, &json),
    }
}

fn slack(status: u16, text: &str, json: &Value) -> Meaning {
    const GONE: [&str; 7] = [
        "no_service",
        "no_service_id",
        "no_team",
        "team_disabled",
        "invalid_token",
        "channel_not_found",
        "channel_is_archived",
    ];
    match status {
        200 if text == "ok" || json["ok"] == true => Meaning::Posted,
        429 => Meaning::Throttled(seconds(&json["retry_after"])),
        _ if GONE.contains(&text) => Meaning::Gone(brief(text)),
        404 | 410 => Meaning::Gone(said(status, text)),
        400 | 403 | 413 => Meaning::Refused(said(status, text)),
        _ => Meaning::Failed(said(status, text)),
    }
}

fn discord(status: u16, text: &str, json: &Value) -> Meaning {
    match (status, json["code"].as_i64()) {
        (200..=299, _) => Meaning::Posted,
        (429, _) => Meaning::Throttled(seconds(&json["retry_after"])),
        (_, Some(10015 | 50027)) => Meaning::Gone(said(status, text)),
        (404 | 410, _) => Meaning::Gone(said(status, text)),
        (400 | 403 | 413, _) => Meaning::Refused(said(status, text)),
        _ => Meaning::Failed(said(status, text)),
    }
}

/// A connector answers 200 also if Teams refused the message. The body then contains the status of Teams.
fn teams_connector(status: u16, text: &str) -> Meaning {
    let inner = text.split_once("HTTP error ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
    match (status, inner) {
        (429, _) | (_, Some(429)) => Meaning::Throttled(None),
        (404 | 410, _) | (_, Some(404 | 410)) => Meaning::Gone(said(status, text)),
        (200, None) if text == "1" || !text.to_ascii_lowercase().contains("fail") => Meaning::Posted,
        (400 | 413, _) | (200, Some(400 | 413)) => Meaning::Refused(said(status, text)),
        _ => Meaning::Failed(said(status, text)),
    }
}

/// The rule of platforms that answer by their status. `passing` marks a refusal that may end.
fn by_status(status: u16, text: &str, passing: &str) -> Meaning {
    match status {
        200..=299 => Meaning::Posted,
        429 => Meaning::Throttled(None),
        404 | 410 => Meaning::Gone(said(status, text)),
        400 | 413 if !text.contains(passing) => Meaning::Refused(said(status, text)),
        _ => Meaning::Failed(said(status, text)),
    }
}

fn feishu(status: u16, text: &str, json: &Value) -> Meaning {
    let code = json["code"].as_i64().or_else(|| json["StatusCode"].as_i64());
    let is_busy = || json["msg"].as_str().is_some_and(|text| text.to_ascii_lowercase().contains("too many"));
    match (status, code) {
        (200, Some(0)) => Meaning::Posted,
        (429, _) | (_, Some(11232 | 99_991_400)) => Meaning::Throttled(None),
        (_, Some(9499)) if is_busy() => Meaning::Throttled(None),
        (_, Some(19001)) | (404 | 410, _) => Meaning::Gone(said(status, text)),
        (_, Some(9499 | 19002 | 19024 | 11246)) | (413, _) => Meaning::Refused(said(status, text)),
        (_, Some(19021)) => Meaning::Failed("the signature does not match: check the secret of the robot".to_owned()),
        _ => Meaning::Failed(said(status, text)),
    }
}

fn dingtalk(status: u16, text: &str, json: &Value) -> Meaning {
    let reason = json["errmsg"].as_str().unwrap_or_default();
    match (status, json["errcode"].as_i64()) {
        (200, Some(0)) => Meaning::Posted,
        (429, _) | (_, Some(130_101 | 410_100 | 660_026)) => Meaning::Throttled(Some(MINUTE)),
        (_, Some(300_001 | 300_005 | 400_013 | 400_101 | 400_102 | 400_106)) => Meaning::Gone(said(status, text)),
        (_, Some(310_000)) if reason.contains("keywords") => Meaning::Refused(said(status, text)),
        (_, Some(310_000)) if reason.contains("sign") => {
            Meaning::Failed("the signature does not match: check the secret of the robot".to_owned())
        }
        (_, Some(40_035 | 43_004 | 400_105 | 430_101..=430_104)) => Meaning::Refused(said(status, text)),
        (404 | 410, None) => Meaning::Gone(said(status, text)),
        _ => Meaning::Failed(said(status, text)),
    }
}

fn wecom(status: u16, text: &str, json: &Value) -> Meaning {
    match (status, json["errcode"].as_i64()) {
        (200, Some(0)) => Meaning::Posted,
        (429, _) | (_, Some(45_009 | 45_033)) => Meaning::Throttled(Some(MINUTE)),
        (_, Some(93_000 | 93_008)) | (404 | 410, None) => Meaning::Gone(said(status, text)),
        (_, Some(40_008 | 40_058 | 44_004 | 45_002)) => Meaning::Refused(said(status, text)),
        _ => Meaning::Failed(said(status, text)),
    }
}

/// Reads a number of seconds, which may have a fraction.
fn seconds(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()?).ok().map(|wait| wait.min(RETRY_DELAY_MAX))
}

fn said(status: u16, text: &str) -> String {
    if text.is_empty() { format!("status {status}") } else { format!("status {status}, {}", brief(text)) }
}

pub(crate) fn brief(text: &str) -> String {
    crate::escape::cut(&crate::escape::one_line(text), 200)
}
