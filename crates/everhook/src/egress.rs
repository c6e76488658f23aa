//! `everhook egress`: pauses and resumes everything that leaves the servers of a store.

use clap::Subcommand;
use everhook_store::query;
use everhook_store::store::Reads;
use serde_json::json;

use crate::cli::{SettingsArgs, beside, print};
use crate::exit::usage;
use crate::operator::{LoggedChange, Operator, OperatorArgs};
use crate::output::{Answer, FormatArgs};

/// Longest reason of a pause, in characters.
const REASON_CHARS_MAX: usize = 500;

#[derive(Debug, Subcommand)]
pub(crate) enum EgressCommand {
    /// Send nothing from now on. Messages and jobs are still accepted, and requests in progress end.
    ///
    /// Every replica follows within two seconds, also if it is started later.
    Pause {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Reason for other operators. The log of the servers shows it.
        #[arg(long, default_value = "an operator paused it")]
        reason: String,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Send again, beginning with the waiting deliveries.
    Resume {
        #[command(flatten)]
        settings: SettingsArgs,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Show whether egress is paused, since when and why.
    Show {
        #[command(flatten)]
        settings: SettingsArgs,
        #[command(flatten)]
        format: FormatArgs,
    },
}

impl EgressCommand {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            EgressCommand::Pause { settings, reason, operator } => {
                if reason.chars().count() > REASON_CHARS_MAX {
                    return Err(usage(format!("--reason is too long: use at most {REASON_CHARS_MAX} characters")));
                }
                set(settings, operator.operator()?, Some(reason))?;
                print("egress is paused: `everhook egress resume` ends the pause\n")
            }
            EgressCommand::Resume { settings, operator } => {
                set(settings, operator.operator()?, None)?;
                print("egress is resumed\n")
            }
            EgressCommand::Show { settings, format } => {
                let pause = beside(settings, async |opened| Ok(opened.store.read(query::FindEgressPause {}).await?))?;
                let answer = match pause {
                    Some(pause) => Answer::facts(
                        json!({ "state": "paused", "since": pause.since, "reason": pause.reason }),
                        vec![
                            ("state", "paused".to_owned()),
                            ("since", pause.since.to_string()),
                            ("reason", pause.reason),
                        ],
                    ),
                    None => Answer::facts(json!({ "state": "open" }), vec![("state", "open".to_owned())]),
                };
                answer.print(format.format())
            }
        }
    }
}

/// Pauses egress for a reason, or ends the pause.
fn set(settings: SettingsArgs, operator: Operator, reason: Option<String>) -> anyhow::Result<()> {
    let action = if reason.is_some() { "egress pause" } else { "egress resume" };
    let object = "/egress".to_owned();
    let change = LoggedChange { environment: None, action, object, reason: reason.clone() };
    beside(settings, async |opened| {
        let set = async { Ok(opened.store.set_egress_pause(reason).await?) };
        operator.logged(&*opened.store, &opened.ids, change, set).await
    })
}
