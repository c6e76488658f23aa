//! Commands that talk to a running server.
//!
//! Every group has its own file, and `tests/server/binary/coverage.rs` proves that each operation of the API has a
//! command.

use clap::{Args, Subcommand};
use everhook_core::traffic::overview::Range;

use crate::alert::AlertCommand;
use crate::app::AppCommand;
use crate::attempt::AttemptCommand;
use crate::audit::AuditCommand;
use crate::batch::BatchCommand;
use crate::chat_app::ChatAppCommand;
use crate::cli::runtime;
use crate::dead::DeadCommand;
use crate::delivery::DeliveryCommand;
use crate::endpoint::EndpointCommand;
use crate::environment_file::EnvironmentCommand;
use crate::event_type::EventTypeCommand;
use crate::integration::IntegrationCommand;
use crate::job::JobCommand;
use crate::message::MessageCommand;
use crate::nodes::NodeCommand;
use crate::once::OnceCommand;
use crate::operational::OperationalCommand;
use crate::outbox::OutboxCommand;
use crate::output::Answer;
use crate::policy::PolicyCommand;
use crate::poller::PollerCommand;
use crate::portal::PortalCommand;
use crate::queue::QueueCommand;
use crate::quota::QuotaCommand;
use crate::remote::{ClientArgs, Remote};
use crate::replay::ReplayArgs;
use crate::schedule::ScheduleCommand;
use crate::tail::TailArgs;
use crate::task::TaskCommand;
use crate::trigger::TriggerArgs;
use crate::usage::UsageCommand;
use crate::worker::WorkerCommand;
use crate::{find, status};

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
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
  everhook replay acme ep_2d… --since 2d --status failed --dry-run
  everhook replay acme ep_2d… --since 2d --status failed --rate 50 --wait
  everhook replay acme ep_2d… --since 2026-05-01T00:00:00Z --until 2026-05-02T00:00:00Z --event-type invoice.paid")]
    Replay(With<ReplayArgs>),
    /// Create and list endpoints for the events of Everhook itself, such as alerts.
    Operational(Asked<OperationalCommand>),
    /// Describe the event types that endpoints can subscribe to.
    EventType(Asked<EventTypeCommand>),
    /// Show and change the settings of deliveries: of the environment, an application or an endpoint.
    Policy(Asked<PolicyCommand>),
    /// Keep lasting keys of one application, for its integrations.
    Integration(Asked<IntegrationCommand>),
    /// Let people of an application into its portal, and set the look of all portals.
    Portal(Asked<PortalCommand>),
    /// Send, show, list, resend and expunge messages.
    Msg(Asked<MessageCommand>),
    /// Send a sample event: the example of its event type, or one that fits its schema.
    #[command(after_help = "Examples:
  everhook trigger invoice.paid --app acme
  everhook trigger invoice.paid --app acme --data '{\"id\": \"inv_1\"}'")]
    Trigger(With<TriggerArgs>),
    /// Show new messages of an application, or new attempts to an endpoint, as they come.
    #[command(after_help = "Examples:
  everhook tail acme
  everhook tail acme --event-type invoice.paid --since 10m
  everhook tail acme --endpoint ep_2d… --failed --json")]
    Tail(With<TailArgs>),
    /// List deliveries with their states and reasons, and retry one now.
    Delivery(Asked<DeliveryCommand>),
    /// Create polled endpoints, and read their messages.
    Poller(Asked<PollerCommand>),
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
    /// Count attempts and subscriptions by application, in a background task.
    Usage(Asked<UsageCommand>),
    /// Find the object that has an id, in any application.
    Find {
        #[command(flatten)]
        client: ClientArgs,
        /// Id of an application, endpoint, message, job, batch or background task.
        id: String,
    },
    /// Export and import the event types of the environment.
    Environment(Asked<EnvironmentCommand>),
    /// Show and check the audit log: who did what, to which object, and why.
    Audit(Asked<AuditCommand>),
    /// Show the nodes of a running server.
    Node(Asked<NodeCommand>),
}

/// A group of commands that talk to a running server.
#[derive(Debug, Args)]
pub(crate) struct Asked<C: Subcommand> {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    command: C,
}

impl<C: Subcommand> Asked<C> {
    fn run(self, command: impl AsyncFnOnce(C, &Remote) -> anyhow::Result<Answer>) -> anyhow::Result<()> {
        ask(&self.client, async |remote| command(self.command, remote).await)
    }
}

/// A single command that talks to a running server.
#[derive(Debug, Args)]
pub(crate) struct With<A: Args> {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    arguments: A,
}

impl<A: Args> With<A> {
    fn run(self, command: impl AsyncFnOnce(A, &Remote) -> anyhow::Result<Answer>) -> anyhow::Result<()> {
        ask(&self.client, async |remote| command(self.arguments, remote).await)
    }
}

impl ClientCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            ClientCommand::Status { client, range } => ask(&client, async |remote| status::ask(remote, range).await),
            ClientCommand::Trigger(with) => with.run(TriggerArgs::ask),
            ClientCommand::Tail(With { client, arguments }) => {
                let remote = client.remote()?;
                runtime()?.block_on(arguments.follow(&remote, client.format.format()))
            }
            ClientCommand::App(asked) => asked.run(AppCommand::ask),
            ClientCommand::Endpoint(asked) => asked.run(EndpointCommand::ask),
            ClientCommand::EventType(asked) => asked.run(EventTypeCommand::ask),
            ClientCommand::Msg(asked) => asked.run(MessageCommand::ask),
            ClientCommand::Attempt(asked) => asked.run(AttemptCommand::ask),
            ClientCommand::Dead(asked) => asked.run(DeadCommand::ask),
            ClientCommand::Once(asked) => asked.run(OnceCommand::ask),
            ClientCommand::Outbox(Asked { client, command }) => {
                runtime()?.block_on(command.run(&client))?.print(client.format.format())
            }
            ClientCommand::Job(asked) => asked.run(JobCommand::ask),
            ClientCommand::Queue(asked) => asked.run(QueueCommand::ask),
            ClientCommand::Quota(asked) => asked.run(QuotaCommand::ask),
            ClientCommand::Batch(asked) => asked.run(BatchCommand::ask),
            ClientCommand::Schedule(asked) => asked.run(ScheduleCommand::ask),
            ClientCommand::Worker(asked) => asked.run(WorkerCommand::ask),
            ClientCommand::Task(asked) => asked.run(TaskCommand::ask),
            ClientCommand::Replay(with) => with.run(ReplayArgs::ask),
            ClientCommand::Operational(asked) => asked.run(OperationalCommand::ask),
            ClientCommand::ChatApp(asked) => asked.run(ChatAppCommand::ask),
            ClientCommand::Alert(asked) => asked.run(AlertCommand::ask),
            ClientCommand::Audit(asked) => asked.run(AuditCommand::ask),
            ClientCommand::Node(asked) => asked.run(NodeCommand::ask),
            ClientCommand::Policy(asked) => asked.run(PolicyCommand::ask),
            ClientCommand::Integration(asked) => asked.run(IntegrationCommand::ask),
            ClientCommand::Portal(asked) => asked.run(PortalCommand::ask),
            ClientCommand::Delivery(asked) => asked.run(DeliveryCommand::ask),
            ClientCommand::Poller(asked) => asked.run(PollerCommand::ask),
            ClientCommand::Usage(asked) => asked.run(UsageCommand::ask),
            ClientCommand::Environment(asked) => asked.run(EnvironmentCommand::ask),
            ClientCommand::Find { client, id } => ask(&client, async |remote| find::ask(remote, &id).await),
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
