//! `everhook schedule`: schedules of jobs and messages.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::exit::usage;
use crate::fields::Fields;
use crate::job::{JobBody, JobOptions, raw_json};
use crate::output::{Answer, Part, Table};
use crate::remote::{Deletion, Remote, named};
use crate::table::{cell, cells, one_line, seconds, time};

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List schedules with their times, targets and next runs.
    List {
        /// List the server's own schedules, which prune old data. Requires an admin key.
        #[arg(long)]
        builtin: bool,
    },
    /// Create a schedule and show it.
    #[command(after_help = "Examples:
  everhook schedule create nightly --cron '0 3 * * *' --timezone Europe/Berlin --queue reports --kind report.build
  everhook schedule create sync --every 5m --queue sync --kind sync.run --payload '{\"full\": false}' --overlap skip
  everhook schedule create ping --cron @hourly --application acme --event-type ping --payload '{}'
  everhook schedule create billing --cron '0 0 1 * *' --queue billing --kind invoice.all --missed catch-up --catch-up 12")]
    Create {
        /// Name of the schedule, such as nightly.
        name: String,
        #[command(flatten)]
        schedule: Box<NewSchedule>,
    },
    /// Change the times and policies of a schedule. Omitted options stay unchanged, and its history stays.
    #[command(after_help = "Examples:
  everhook schedule edit nightly --cron '0 4 * * *'
  everhook schedule edit sync --every 10m --overlap skip
  everhook schedule edit sync --set '{\"job\": {\"queue\": \"sync\", \"kind\": \"sync.run\", \"payload\": {\"full\": true}}}'")]
    Edit {
        /// Name of the schedule, such as nightly.
        name: String,
        #[command(flatten)]
        change: Box<ScheduleChange>,
    },
    /// Show a schedule with its next five times and its latest runs.
    Show(ScheduleName),
    /// Pause a schedule: no run starts until it is resumed.
    Pause(ScheduleName),
    /// Resume a schedule. Runs of the meantime are not caught up.
    Resume(ScheduleName),
    /// Start a run now. The regular times stay unchanged.
    Run(ScheduleName),
    /// Delete a schedule with its history. Started jobs and messages stay.
    Delete {
        /// Name of the schedule, such as nightly.
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleName {
    /// Name of the schedule, such as nightly.
    name: String,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("times").required(true).args(["cron", "every"])))]
#[command(group(ArgGroup::new("work").required(true).args(["queue", "application"])))]
pub(crate) struct NewSchedule {
    /// Cron expression: five fields, six with seconds first, or a nickname such as @daily.
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// Interval such as 5m, instead of --cron. A number without a unit counts seconds.
    #[arg(long, value_name = "DURATION", value_parser = crate::when::seconds)]
    every: Option<u64>,
    /// Time zone of the expression, such as Europe/Berlin [default: UTC].
    #[arg(long, value_name = "ZONE", requires = "cron")]
    timezone: Option<String>,
    /// Time of the first possible run.
    #[arg(long, value_name = "TIME")]
    starts_at: Option<String>,
    /// Time from which on no run starts.
    #[arg(long, value_name = "TIME")]
    ends_at: Option<String>,
    /// Delay each run by up to this time, such as 30s.
    #[arg(long, value_name = "DURATION", value_parser = crate::when::seconds)]
    jitter: Option<u64>,
    /// While the previous run is open: start beside it (allow), drop the new run (skip), or start afterwards
    /// (queue-one).
    #[arg(long, value_name = "POLICY")]
    overlap: Option<Overlap>,
    /// Missed runs: drop them (skip), start one run for all (run-once), or start the latest ones (catch-up).
    #[arg(long, value_name = "POLICY")]
    missed: Option<Missed>,
    /// Number of missed runs to catch up.
    #[arg(long, value_name = "COUNT", required_if_eq("missed", "catch-up"))]
    catch_up: Option<u32>,
    /// Queue of the job to start.
    #[arg(long, requires = "kind")]
    queue: Option<String>,
    /// Kind of the job to start.
    #[arg(long, requires = "queue")]
    kind: Option<String>,
    #[command(flatten)]
    job: JobOptions,
    /// Id or uid of the application of the message to send.
    #[arg(long, alias = "app", value_name = "ID or UID", requires = "event_type")]
    application: Option<String>,
    /// Event type of the message to send.
    #[arg(long, value_name = "NAME", requires = "application")]
    event_type: Option<String>,
    /// Payload of the job or message, as JSON.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Create the schedule in the paused state.
    #[arg(long)]
    paused: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleChange {
    /// New cron expression. It replaces an interval.
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "every")]
    cron: Option<String>,
    /// New interval such as 5m. It replaces a cron expression.
    #[arg(long, value_name = "DURATION", value_parser = crate::when::seconds)]
    every: Option<u64>,
    /// New time zone of the expression, such as Europe/Berlin.
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    timezone: Option<String>,
    /// New time of the first possible run, or none.
    #[arg(long, value_name = "TIME")]
    starts_at: Option<String>,
    /// New time from which on no run starts, or none.
    #[arg(long, value_name = "TIME")]
    ends_at: Option<String>,
    /// Delay each run by up to this time, such as 30s.
    #[arg(long, value_name = "DURATION", value_parser = crate::when::seconds)]
    jitter: Option<u64>,
    /// While the previous run is open: allow, skip or queue-one.
    #[arg(long, value_name = "POLICY")]
    overlap: Option<Overlap>,
    /// Missed runs: skip, run-once or catch-up.
    #[arg(long, value_name = "POLICY")]
    missed: Option<Missed>,
    /// Number of missed runs to catch up.
    #[arg(long, value_name = "COUNT")]
    catch_up: Option<u32>,
    /// Other members as the API has them, such as a whole job or message.
    #[arg(long, value_name = "JSON")]
    set: Option<String>,
}

impl ScheduleChange {
    fn body(self) -> anyhow::Result<Value> {
        let mut body = match self.set.as_deref().map(serde_json::from_str::<Map<String, Value>>) {
            None => Map::new(),
            Some(Ok(members)) => members,
            Some(Err(error)) => return Err(usage(format!("invalid JSON object in --set: {error}"))),
        };
        // One of the two must go.
        if self.cron.is_some() {
            body.insert("everySeconds".to_owned(), Value::Null);
        }
        if self.every.is_some() {
            body.insert("cron".to_owned(), Value::Null);
            body.insert("timezone".to_owned(), Value::Null);
        }
        body.add_text("cron", self.cron);
        body.add_text("timezone", self.timezone);
        body.add_text_or_none("startsAt", self.starts_at);
        body.add_text_or_none("endsAt", self.ends_at);
        let numbers =
            [("everySeconds", self.every), ("jitterSeconds", self.jitter), ("catchUp", self.catch_up.map(u64::from))];
        for (name, number) in numbers {
            if let Some(number) = number {
                body.insert(name.to_owned(), number.into());
            }
        }
        if let Some(overlap) = self.overlap {
            body.insert("overlap".to_owned(), json!(overlap));
        }
        if let Some(missed) = self.missed {
            body.insert("missed".to_owned(), json!(missed));
        }
        if body.is_empty() {
            return Err(usage("an option with a new value is required, such as --cron"));
        }
        Ok(Value::from(body))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum Overlap {
    Allow,
    Skip,
    QueueOne,
}

#[derive(Clone, Copy, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum Missed {
    Skip,
    RunOnce,
    CatchUp,
}

/// JSON body of a schedule.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScheduleBody {
    name: String,
    cron: Option<String>,
    every_seconds: Option<u64>,
    timezone: Option<String>,
    starts_at: Option<String>,
    ends_at: Option<String>,
    jitter_seconds: Option<u64>,
    overlap: Option<Overlap>,
    missed: Option<Missed>,
    catch_up: Option<u32>,
    job: Option<JobBody>,
    message: Option<MessageBody>,
    paused: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageBody {
    application: String,
    event_type: String,
    payload: Box<RawValue>,
}

impl ScheduleCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            ScheduleCommand::List { builtin } => list(remote, builtin).await,
            ScheduleCommand::Create { name, schedule } => {
                Ok(shown(remote.post_body("/schedule", &schedule.body(name)?).await?))
            }
            ScheduleCommand::Edit { name, change } => {
                let path = path(&name)?;
                Ok(shown(remote.patch(&path, &change.body()?).await?))
            }
            ScheduleCommand::Show(ScheduleName { name }) => Ok(shown(remote.get(&path(&name)?).await?)),
            ScheduleCommand::Pause(ScheduleName { name }) => {
                let paused = remote.post(&format!("{}/pause", path(&name)?)).await?;
                Ok(Answer::line(paused, format!("{name} is paused: `everhook schedule resume {name}` resumes it")))
            }
            ScheduleCommand::Resume(ScheduleName { name }) => {
                let resumed = remote.post(&format!("{}/resume", path(&name)?)).await?;
                let text = format!("{name} is {}, next run {}", cell(&resumed, "state"), time(&resumed, "nextRunAt"));
                Ok(Answer::line(resumed, text))
            }
            ScheduleCommand::Run(ScheduleName { name }) => {
                let run = remote.post(&format!("{}/run", path(&name)?)).await?;
                let text = format!("started {}", object(&run));
                Ok(Answer::line(run, text))
            }
            ScheduleCommand::Delete { name, consent } => {
                let what = format!("schedule {name} with its history");
                remote.delete_object(consent, Deletion { path: path(&name)?, name, what }).await
            }
        }
    }
}

impl NewSchedule {
    fn body(self, name: String) -> anyhow::Result<ScheduleBody> {
        let (job, message) = match (self.queue, self.kind, self.application, self.event_type) {
            (Some(queue), Some(kind), None, None) => (Some(self.job.body(queue, kind, self.payload)?), None),
            (None, None, Some(_), Some(_)) if self.job != JobOptions::default() => {
                return Err(usage(
                    "--priority, --tag and other options of a job have no effect on a message: remove them",
                ));
            }
            (None, None, Some(application), Some(event_type)) => {
                let payload = raw_json(self.payload.unwrap_or_else(|| "{}".to_owned()))?;
                (None, Some(MessageBody { application, event_type, payload }))
            }
            _ => {
                let rule =
                    "--queue and --kind (for a job) or --application and --event-type (for a message) are required";
                return Err(usage(rule));
            }
        };
        Ok(ScheduleBody {
            name,
            cron: self.cron,
            every_seconds: self.every,
            timezone: self.timezone,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            jitter_seconds: self.jitter,
            overlap: self.overlap,
            missed: self.missed,
            catch_up: self.catch_up,
            job,
            message,
            paused: self.paused,
        })
    }
}

async fn list(remote: &Remote, builtin: bool) -> anyhow::Result<Answer> {
    let path = if builtin { "/schedule?builtin=true" } else { "/schedule" };
    let schedules = remote.get_all(path).await?;
    let list = Answer::list(schedules, ["NAME", "STATE", "WHEN", "STARTS", "NEXT RUN"], |schedule| {
        let [name, state] = cells(schedule, ["name", "state"]);
        [name, state, when(schedule), starts(schedule), time(schedule, "nextRunAt")]
    });
    Ok(list.if_empty("no schedules: `everhook schedule create` creates one"))
}

fn shown(schedule: Value) -> Answer {
    let what = if schedule["job"].is_null() { &schedule["message"] } else { &schedule["job"] };
    let upcoming = schedule["upcoming"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let facts = vec![
        ("name", cell(&schedule, "name")),
        ("state", cell(&schedule, "state")),
        ("when", when(&schedule)),
        ("starts", starts(&schedule)),
        ("payload", one_line(&what["payload"].to_string())),
        ("policies", format!("overlap {}, missed {}", cell(&schedule, "overlap"), cell(&schedule, "missed"))),
        ("begins", time(&schedule, "startsAt")),
        ("ends", time(&schedule, "endsAt")),
        ("waiting run", time(&schedule, "queuedRunAt")),
        ("next runs", upcoming.map(seconds).collect::<Vec<_>>().join(" ")),
    ];
    let runs = schedule["history"].as_array().into_iter().flatten();
    let runs = Table::new(["RUN OF", "AT", "WHAT", "STARTED"], runs, |run| {
        [time(run, "nominalAt"), time(run, "at"), cell(run, "kind"), object(run)]
    });
    Answer::object(schedule, vec![Part::Facts(facts), Part::Table(runs)])
}

fn when(schedule: &Value) -> String {
    match schedule["everySeconds"].as_u64() {
        Some(every) => format!("every {every} s"),
        None => format!("{} {}", cell(schedule, "cron"), cell(schedule, "timezone")),
    }
}

fn starts(schedule: &Value) -> String {
    let (job, message) = (&schedule["job"], &schedule["message"]);
    if job.is_null() {
        return format!("message {} to {}", cell(message, "eventType"), cell(message, "application"));
    }
    format!("job {} on {}", cell(job, "kind"), cell(job, "queue"))
}

fn object(run: &Value) -> String {
    if run["jobId"].is_null() { cell(run, "messageId") } else { cell(run, "jobId") }
}

fn path(name: &str) -> anyhow::Result<String> {
    Ok(format!("/schedule/{}", named("schedule", name)?))
}
