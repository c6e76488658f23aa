//! `everhook quota`: limits of the environment and its applications, and how much of them is used.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::app;
use crate::exit::usage;
use crate::output::{Answer, Part};
use crate::remote::Remote;

#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// Show the limits in force and their use, of the environment or of an application.
    Show {
        /// Id or uid of the application.
        application: Option<String>,
    },
    /// Change limits of the environment, of each application (--each) or of one application. Omitted limits stay
    /// unchanged.
    #[command(after_help = "Examples:
  everhook quota set --stored-messages 5000000            all applications together
  everhook quota set --each --message-rate 100/1 --burst 500
  everhook quota set acme --endpoints 50 --message-rate none
  everhook quota set acme --endpoints inherit")]
    Set {
        /// Id or uid of the application.
        application: Option<String>,
        /// Change the limits of each application that sets none of its own.
        #[arg(long, conflicts_with = "application")]
        each: bool,
        #[command(flatten)]
        limits: QuotaFields,
    },
}

#[derive(Debug, Args)]
pub(crate) struct QuotaFields {
    /// Endpoints that may exist, none for no limit, or inherit.
    #[arg(long, value_name = "COUNT")]
    endpoints: Option<String>,
    /// New messages in a period of seconds, such as 100/1, none for no limit, or inherit.
    #[arg(long, value_name = "COUNT/SECONDS")]
    message_rate: Option<String>,
    /// New messages that may come at once. Needs --message-rate [default: its count].
    #[arg(long, value_name = "COUNT", requires = "message_rate")]
    burst: Option<u32>,
    /// Messages that may be stored, none for no limit, or inherit.
    #[arg(long, value_name = "COUNT")]
    stored_messages: Option<String>,
}

impl QuotaCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            QuotaCommand::Show { application } => {
                Ok(shown(remote.get(&format!("{}/usage", place(application.as_deref())?)).await?))
            }
            QuotaCommand::Set { application, each, limits } => {
                let place = place(application.as_deref())?;
                let path = format!("{place}/quota");
                let mut quota = remote.get(&path).await?;
                let member = if each { &mut quota["eachApplication"] } else { &mut quota };
                if member.is_null() {
                    *member = json!({});
                }
                limits.change(member.as_object_mut().ok_or_else(|| usage("the server returned no quota"))?)?;
                Ok(stored(remote.put(&path, &quota).await?))
            }
        }
    }
}

impl QuotaFields {
    fn change(self, quota: &mut Map<String, Value>) -> anyhow::Result<()> {
        if self.endpoints.is_none() && self.message_rate.is_none() && self.stored_messages.is_none() {
            return Err(usage("--endpoints, --message-rate or --stored-messages is required"));
        }
        let burst = self.burst;
        put(quota, "endpoints", self.endpoints, "--endpoints must be a number", number)?;
        put(quota, "storedMessages", self.stored_messages, "--stored-messages must be a number", number)?;
        put(quota, "messageRate", self.message_rate, "--message-rate must be COUNT/SECONDS, such as 100/1", |text| {
            let (count, seconds) = text.split_once('/')?;
            let mut rate = json!({ "count": number(count)?, "seconds": number(seconds)? });
            if let Some(burst) = burst {
                rate["burst"] = json!(burst);
            }
            Some(rate)
        })
    }
}

/// Sets a member as an option says: a value, `none`, or `inherit` for no member.
fn put(
    quota: &mut Map<String, Value>,
    name: &str,
    given: Option<String>,
    rule: &str,
    read: impl Fn(&str) -> Option<Value>,
) -> anyhow::Result<()> {
    let Some(text) = given else { return Ok(()) };
    let value = match text.as_str() {
        "inherit" => {
            quota.remove(name);
            return Ok(());
        }
        "none" => Value::from("none"),
        text => read(text).ok_or_else(|| usage(format!("{rule}, none or inherit")))?,
    };
    quota.insert(name.to_owned(), value);
    Ok(())
}

fn number(text: &str) -> Option<Value> {
    text.parse::<u64>().ok().map(Value::from)
}

/// A stored quota: only the limits that it sets itself.
fn stored(quota: Value) -> Answer {
    let limits = |quota: &Value| {
        let limit = |name: &str| match &quota[name] {
            Value::Null => "not set".to_owned(),
            Value::String(none) if none == "none" => "no limit".to_owned(),
            Value::Object(rate) => rate_text(rate),
            count => count.to_string(),
        };
        vec![
            ("endpoints", limit("endpoints")),
            ("stored messages", limit("storedMessages")),
            ("message rate", limit("messageRate")),
        ]
    };
    let mut parts = vec![Part::Facts(limits(&quota))];
    if quota["eachApplication"].is_object() {
        parts.push(Part::Line("each application that sets none of its own:".to_owned()));
        parts.push(Part::Facts(limits(&quota["eachApplication"])));
    }
    Answer::object(quota, parts)
}

fn rate_text(rate: &Map<String, Value>) -> String {
    let number = |name: &str| rate.get(name).and_then(Value::as_u64);
    let burst = number("burst").map_or_else(String::new, |burst| format!(", up to {burst} at once"));
    match (number("count"), number("seconds")) {
        (Some(count), Some(seconds)) => format!("{count} in {seconds} s{burst}"),
        _ => "no limit".to_owned(),
    }
}

fn shown(used: Value) -> Answer {
    let of = |name: &str| {
        let count = &used[name];
        let more = if count["atLeast"] == true { " or more" } else { "" };
        match count["limit"].as_u64() {
            Some(limit) => format!("{}{more} of {limit}", count["used"]),
            None => format!("{}{more}, no limit", count["used"]),
        }
    };
    let rate = used["messageRate"].as_object().map_or_else(|| "no limit".to_owned(), rate_text);
    let facts = vec![("endpoints", of("endpoints")), ("stored messages", of("storedMessages")), ("message rate", rate)];
    Answer::facts(used.clone(), facts)
}

fn place(application: Option<&str>) -> anyhow::Result<String> {
    application.map_or_else(|| Ok("/environment".to_owned()), app::path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(endpoints: Option<&str>, message_rate: Option<&str>, burst: Option<u32>) -> QuotaFields {
        let text = |given: Option<&str>| given.map(str::to_owned);
        QuotaFields { endpoints: text(endpoints), message_rate: text(message_rate), burst, stored_messages: None }
    }

    #[test]
    fn given_limits_replace_those_of_the_quota_and_others_stay() {
        let check = |given: QuotaFields, want: Value| {
            let mut quota = json!({ "endpoints": 5, "storedMessages": 7 });
            given.change(quota.as_object_mut().unwrap()).unwrap();
            assert_eq!(quota, want);
        };
        let rate = json!({ "count": 100, "seconds": 2, "burst": 9 });
        check(
            fields(None, Some("100/2"), Some(9)),
            json!({ "endpoints": 5, "storedMessages": 7, "messageRate": rate }),
        );
        check(fields(Some("none"), None, None), json!({ "endpoints": "none", "storedMessages": 7 }));
        check(fields(Some("inherit"), None, None), json!({ "storedMessages": 7 }));
        let refused = fields(None, Some("100"), None).change(&mut Map::new()).unwrap_err();
        assert_eq!(refused.to_string(), "--message-rate must be COUNT/SECONDS, such as 100/1, none or inherit");
        assert!(fields(None, None, None).change(&mut Map::new()).is_err());
    }
}
