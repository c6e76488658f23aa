//! The command line: arguments, and the commands they start.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use everhook_core::token::TokenKeyChange;
use everhook_core::traffic::overview::Range;
use everhook_sqlite::Existing;

use crate::alert::AlertCommand;
use crate::app::AppCommand;
use crate::attempt::AttemptCommand;
use crate::audit::AuditCommand;
use crate::batch::BatchCommand;
use crate::chat_app::ChatAppCommand;
use crate::config::{Config, Flags, Settings, reference_page};
use crate::confirm::Consent;
use crate::context::ContextCommand;
use crate::copy::CopyArgs;
use crate::dead::DeadCommand;
use crate::doctor::DoctorArgs;
use crate::egress::EgressCommand;
use crate::endpoint::EndpointCommand;
use crate::event_type::EventTypeCommand;
use crate::import::ImportCommand;
use crate::job::JobCommand;
use crate::key_command::KeyCommand;
use crate::listen::ListenArgs;
use crate::message::MessageCommand;
use crate::nodes::NodeCommand;
use crate::once::OnceCommand;
use crate::operational::OperationalCommand;
use crate::operator::OperatorArgs;
use crate::outbox::OutboxCommand;
use crate::output::{Answer, FormatArgs, write_out};
use crate::plain::plain;
use crate::queue::QueueCommand;
use crate::quota::QuotaCommand;
use crate::remote::{ClientArgs, Remote};
use crate::replay::ReplayArgs;
use crate::schedule::ScheduleCommand;
use crate::secrets::SecretsCommand;
use crate::serve::Announce;
use crate::tail::TailArgs;
use crate::task::TaskCommand;
use crate::trigger::TriggerArgs;
use crate::verify::VerifyArgs;
use crate::worker::WorkerCommand;
use crate::{backup, exit, keys, logging, metrics_reference, serve, status, store};

/// Delivers webhooks and runs jobs durably: accepted work ends as delivered, dead or cancelled, visibly.
///
/// Start with `everhook serve`. It needs no configuration, keeps its data in ./everhook-data, and shows a first API key
/// with a command to try. Without a terminal, the key is written to a file. On several machines, give every replica the
/// same `--database postgres://…`.
///
/// Other commands talk to a running server. Choose it with --url and --key, with EVERHOOK_URL and EVERHOOK_KEY, or
/// store it with `everhook context add`.
#[derive(Debug, Parser)]
#[command(name = "everhook", version, max_term_width = 100, after_long_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Sources of the configuration. Flags override `EVERHOOK_*` variables, which override the file, which overrides the
/// defaults.
#[derive(Debug, Default, Args)]
pub(crate) struct SettingsArgs {
    /// Read the configuration from this TOML file (see `everhook config init`).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Store everything in an embedded database in this folder [default: ./everhook-data].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Store everything in this PostgreSQL database, which any number of replicas may share.
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    database: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: the API and the deliveries.
    Serve {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Listen on this address [default: 127.0.0.1:8071].
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<String>,
        /// Also serve health and metrics on this address, with connections that API clients cannot use up.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen_ops: Option<String>,
        /// Begin links to this server with this URL, such as https://hooks.example.com (EVERHOOK_PUBLIC_URL)
        /// [default: the host of the request].
        #[arg(long, value_name = "URL")]
        public_url: Option<String>,
        /// Role of the node: all, api (accepts) or worker (delivers) [default: all].
        #[arg(long, value_name = "ROLE")]
        role: Option<String>,
    },
    /// Migrate the database schema (`serve` does so at start, unless `auto_migrate = false`).
    Migrate {
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Check the configuration and the machine, and say what to do about each problem.
    ///
    /// Checks the settings, the store with its schema and durability, the clock, the disk, the egress rules, the keys,
    /// the limit of open files and the ports. Changes nothing, and may run beside a server.
    #[command(after_help = "The exit code is 0 if no check failed, also with warnings, and 1 if one failed.")]
    Doctor(DoctorArgs),
    /// Copy the embedded database to a new file, also while a server runs.
    #[command(after_help = "Example:
  everhook backup --data /var/lib/everhook /backup/everhook-$(date +%F).db

The key file of the store is copied to the same name with the ending .keys. Keep it apart from the backup: the secrets in
the backup can be read with it, and not without it.

A restored copy sends nothing until `everhook egress resume`. For PostgreSQL, use pg_dump or pg_basebackup.")]
    Backup {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Name of the new file.
        file: PathBuf,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Put a backup into the data folder. No server may use the folder.
    #[command(after_help = "Example:
  everhook restore --data /var/lib/everhook /backup/everhook-2026-05-04.db

The key file beside the backup, with the ending .keys, is restored, too.

The restored store accepts messages and sends nothing until `everhook egress resume`.")]
    Restore {
        #[command(flatten)]
        settings: SettingsArgs,
        /// File that `everhook backup` has written.
        file: PathBuf,
        /// Move a store that is in the folder to a subfolder, instead of refusing to restore.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Copy everything from the embedded store to PostgreSQL. No server may run meanwhile.
    #[command(after_help = "Example:
  everhook copy --from sqlite:///var/lib/everhook --to postgres://everhook:password@db/everhook

The target must be empty. All rows are copied in one transaction and counted. Afterwards the egress of the source is
paused, so that a server that is started on it by mistake sends nothing.")]
    Copy(CopyArgs),
    /// Pause and resume all deliveries, pushes and outboxes, on every replica.
    #[command(subcommand)]
    Egress(EgressCommand),
    /// Create, list and revoke API keys, also while a server runs.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Rotate the key that signs application tokens, also while a server runs.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Make and rotate the keys that seal secrets in the database, also while a server runs.
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Copy applications, endpoints and event types from another product, also while a server runs.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Print a configuration template, or check and show the current configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Receive webhooks on this machine, verify and show them, and forward them to a local program.
    #[command(after_help = "Examples:
  everhook listen --demo                                   see a first webhook arrive, with nothing to set up
  everhook listen --port 9000 --secret whsec_…             verify the signature of every request
  everhook listen --forward http://127.0.0.1:3000/hooks    show requests on their way to your program")]
    Listen(ListenArgs),
    /// Check the signature of a received request, and say what is wrong with it.
    #[command(after_help = "Example:
  everhook verify --secret whsec_… -H 'webhook-id: msg_2d…' -H 'webhook-timestamp: 1777896000' \\
    -H 'webhook-signature: v1,…' --file body.json

The exit code is 0 for a genuine request and 1 for any other.")]
    Verify(VerifyArgs),
    /// Name servers with their keys, to use them with --context.
    Context {
        #[command(flatten)]
        format: FormatArgs,
        #[command(subcommand)]
        command: ContextCommand,
    },
    /// Show a server on one screen: traffic, open tasks, failures, nodes, queues and outboxes.
    #[command(after_help = "Examples:
  everhook status
  everhook status --range 24h --json")]
    Status {
        #[command(flatten)]
        client: ClientArgs,
        /// Range of the traffic: 15m, 1h, 6h, 24h or 7d.
        #[arg(long, value_name = "RANGE", default_value = "1h")]
        range: Range,
    },
    /// Create, list and change applications, which own endpoints and messages.
    App(Asked<AppCommand>),
    /// Create, list and change endpoints: URLs with filters, headers and a signing secret.
    Endpoint(Asked<EndpointCommand>),
    /// Set the apps that bring chat messages to single people.
    ChatApp(Asked<ChatAppCommand>),
    /// Send messages of a window again to an endpoint, in a background task.
    #[command(after_help = "Examples:
  everhook replay acme ep_2d… --since 2d --status failed
  everhook replay acme ep_2d… --since 2026-05-01T00:00:00Z --until 2026-05-02T00:00:00Z --event-type invoice.paid")]
    Replay {
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        replay: ReplayArgs,
    },
    /// Create and list endpoints for the events of Everhook itself, such as alerts.
    Operational(Asked<OperationalCommand>),
    /// Describe the event types that endpoints can subscribe to.
    EventType(Asked<EventTypeCommand>),
    /// Send, show, list, resend and expunge messages.
    Msg(Asked<MessageCommand>),
    /// Send a sample event: the example of its event type, or one that fits its schema.
    #[command(after_help = "Examples:
  everhook trigger invoice.paid --app acme
  everhook trigger invoice.paid --app acme --data '{\"id\": \"inv_1\"}'")]
    Trigger {
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        trigger: TriggerArgs,
    },
    /// Show new messages of an application, or new attempts to an endpoint, as they come.
    #[command(after_help = "Examples:
  everhook tail acme
  everhook tail acme --event-type invoice.paid --since 10m
  everhook tail acme --endpoint ep_2d… --failed --json")]
    Tail {
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        tail: TailArgs,
    },
    /// Show the attempts to deliver messages.
    Attempt(Asked<AttemptCommand>),
    /// Show dead deliveries, which are out of attempts, and send them again.
    Dead(Asked<DeadCommand>),
    /// Show and reset once-slots, which send one message per phase.
    ///
    /// A message with `"once": {"key": "run-42"}` claims the slot run-42 of its application. The first message wins and
    /// is delivered. Later ones are not sent; the API returns the winner instead. A claim with a higher phase, or a
    /// reset, opens the slot again.
    Once(Asked<OnceCommand>),
    /// Show and repair outboxes, and install new ones.
    Outbox(Asked<OutboxCommand>),
    /// Enqueue, list and change jobs.
    ///
    /// A job waits on a queue until a worker leases it, or until the server pushes it to the queue's URL. A failed job
    /// is retried. When no attempts are left, the job is dead and waits for `retry` or `redrive`.
    Job(Asked<JobCommand>),
    /// Show, pause, limit and delete queues, and set their push URLs.
    Queue(Asked<QueueCommand>),
    /// Show and change quotas: how many endpoints, new messages and stored messages there may be.
    Quota(Asked<QuotaCommand>),
    /// Create, show and repair batches of jobs.
    Batch(Asked<BatchCommand>),
    /// Start jobs or messages on a schedule.
    Schedule(Asked<ScheduleCommand>),
    /// Show the workers of a running server.
    Worker(Asked<WorkerCommand>),
    /// Show and cancel background tasks, which do bulk work such as a recovery.
    Task(Asked<TaskCommand>),
    /// Page operators when a number of the environment is out of bounds.
    Alert(Asked<AlertCommand>),
    /// Show and check the audit log: who did what, to which object, and why.
    Audit(Asked<AuditCommand>),
    /// Show the nodes of a running server.
    Node(Asked<NodeCommand>),
    /// Print the completions of a shell.
    #[command(after_help = "Examples:
  everhook completions bash > /etc/bash_completion.d/everhook
  everhook completions zsh > ~/.zfunc/_everhook
  everhook completions fish > ~/.config/fish/completions/everhook.fish")]
    Completions {
        /// Shell to complete commands in.
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands to a folder.
    #[command(after_help = "Examples:
  everhook man | man -l -
  everhook man --folder /usr/local/share/man/man1")]
    Man {
        /// Write one page per command to this folder.
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
    /// Print the OpenAPI document of the API.
    #[command(hide = true)]
    Openapi,
    /// Print the reference of metrics.
    #[command(hide = true)]
    MetricsReference,
}

// A group of commands that talk to a running server. A doc comment would replace the description of each group.
#[derive(Debug, Args)]
struct Asked<C: Subcommand> {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    command: C,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Sign new application tokens with a new key. Tokens of the old key stay valid until they expire.
    RotateKey {
        #[command(flatten)]
        settings: SettingsArgs,
        /// End all application tokens of the server. Every replica rejects them within seconds.
        #[arg(long)]
        revoke: bool,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print a template with every setting and its default.
    Init,
    /// Print the reference of all settings as Markdown.
    #[command(hide = true)]
    Reference,
    /// Check whether the configuration is valid.
    Check {
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Show every setting with its source. Secrets are redacted.
    Show {
        #[command(flatten)]
        settings: SettingsArgs,
    },
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve { settings, listen, listen_ops, public_url, role } => {
                let flags = Flags { listen, listen_ops, public_url, role, ..Flags::default() };
                let (config, logs) = settings.start(flags)?;
                runtime()?.block_on(serve::serve(config, &logs, Announce::Print))
            }
            Command::Migrate { settings } => {
                let (config, _logs) = settings.start(Flags::default())?;
                runtime()?.block_on(store::migrate(&config))
            }
            Command::Doctor(doctor) => runtime()?.block_on(doctor.run()),
            Command::Backup { settings, file, operator } => {
                let (config, _logs) = settings.start(Flags::default())?;
                runtime()?.block_on(backup::back_up(&config, &file, operator.operator()?))
            }
            Command::Restore { settings, file, replace, consent, operator } => {
                let (config, _logs) = settings.start(Flags::default())?;
                let existing = if replace { Existing::MoveAside } else { Existing::Refuse };
                runtime()?.block_on(backup::restore(&config, &file, existing, consent, operator.operator()?))
            }
            Command::Copy(copy) => runtime()?.block_on(copy.run())?.print(copy.format.format()),
            Command::Egress(command) => command.run(),
            Command::Key(command) => command.run(),
            Command::Token(command) => command.run(),
            Command::Secrets(command) => command.run(),
            Command::Import(ImportCommand::Svix(mut import)) => {
                let (config, _logs) = std::mem::take(&mut import.settings).start(Flags::default())?;
                runtime()?.block_on(import.run(&config))
            }
            Command::Config(command) => command.run(),
            Command::Listen(listen) => runtime()?.block_on(listen.run()),
            Command::Verify(verify) => verify.run(),
            Command::Context { format, command } => command.run()?.print(format.format()),
            Command::Status { client, range } => ask(&client, async |remote| status::ask(remote, range).await),
            Command::Trigger { client, trigger } => ask(&client, async |remote| trigger.ask(remote).await),
            Command::Tail { client, tail } => {
                let remote = client.remote()?;
                runtime()?.block_on(tail.follow(&remote, client.format.format()))
            }
            Command::App(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Endpoint(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::EventType(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Msg(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Attempt(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Dead(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Once(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Outbox(Asked { client, command }) => {
                runtime()?.block_on(command.run(&client))?.print(client.format.format())
            }
            Command::Job(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Queue(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Quota(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Batch(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Schedule(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Worker(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Task(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Replay { client, replay } => ask(&client, async |remote| replay.ask(remote).await),
            Command::Operational(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::ChatApp(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Alert(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Audit(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Node(Asked { client, command }) => ask(&client, async |remote| command.ask(remote).await),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "everhook", &mut script);
                // The script contains no text of customers, and tabs must stay.
                write_out(&String::from_utf8_lossy(&script))
            }
            Command::Man { folder } => manual(folder),
            Command::Openapi => print(&everhook_api::openapi()),
            Command::MetricsReference => print(&metrics_reference::page()),
        }
    }
}

/// Prints the manual page, or writes the pages of all commands.
fn manual(folder: Option<PathBuf>) -> anyhow::Result<()> {
    match folder {
        Some(folder) => clap_mangen::generate_to(Cli::command(), &folder)
            .with_context(|| format!("could not write to {}", folder.display())),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            print(&String::from_utf8_lossy(&page))
        }
    }
}

/// Sends a command to the chosen server and prints the answer.
pub(crate) fn ask(
    client: &ClientArgs,
    command: impl AsyncFnOnce(&Remote) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    let remote = client.remote()?;
    runtime()?.block_on(command(&remote))?.print(client.format.format())
}

impl SettingsArgs {
    /// Reads the configuration, without checking it.
    pub(crate) fn load(self, flags: Flags) -> anyhow::Result<Settings> {
        let flags = Flags { data: self.data, database: self.database, ..flags };
        Settings::load(self.config.as_deref(), flags)
    }

    /// Checks the configuration and starts the logger.
    fn start(self, flags: Flags) -> anyhow::Result<(Config, logging::Logs)> {
        let settings = self.load(flags)?;
        let config = settings.check()?;
        let logs = logging::init(&config)?;
        settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok((config, logs))
    }
}

/// Runs a task on the store, beside a server that may use it.
pub(crate) fn beside<T>(
    settings: SettingsArgs,
    task: impl AsyncFnOnce(&store::Opened) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    beside_with(settings, |_| Ok(()), task)
}

/// The same, with a step before the store is opened.
pub(crate) fn beside_with<T>(
    settings: SettingsArgs,
    prepare: impl FnOnce(&Config) -> anyhow::Result<()>,
    task: impl AsyncFnOnce(&store::Opened) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (config, _logs) = settings.start(Flags::default())?;
    prepare(&config)?;
    let done = runtime()?.block_on(async {
        let opened = store::open_beside(&config).await?;
        let done = task(&opened).await?;
        opened.close().await;
        anyhow::Ok(done)
    })?;
    note(&format!("data: {}", store::place(&config)));
    Ok(done)
}

impl ConfigCommand {
    fn run(self) -> anyhow::Result<()> {
        match self {
            ConfigCommand::Init => print(Settings::TEMPLATE),
            ConfigCommand::Reference => print(&reference_page()),
            ConfigCommand::Check { settings } => {
                settings.start(Flags::default())?;
                print("configuration is valid\n")
            }
            ConfigCommand::Show { settings } => {
                let settings = settings.load(Flags::default())?;
                let _logs = logging::init(&settings.check()?)?;
                settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
                print(&settings.show())
            }
        }
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().context("could not start the runtime")
}

impl TokenCommand {
    fn run(self) -> anyhow::Result<()> {
        let TokenCommand::RotateKey { settings, revoke, consent, operator } = self;
        let operator = operator.operator()?;
        let change = if revoke { TokenKeyChange::Revoke } else { TokenKeyChange::Rotate };
        if revoke {
            consent.to("end all application tokens of the server", None)?;
        }
        let text = beside(settings, async |opened| {
            keys::rotate_token_key(&*opened.store, &opened.ids, &operator, change).await
        })?;
        print(&text)
    }
}

/// Writes to stderr: a hint for people, while programs read stdout.
pub(crate) fn note(text: &str) {
    eprintln!("{}", plain(text));
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write_out(&plain(text))
}
