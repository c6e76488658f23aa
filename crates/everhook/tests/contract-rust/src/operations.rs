//! Every operation of the svix crate that the contract tests exercise, by its name in the Python package.

use serde::Serialize;
use serde_json::Value;
use svix::Svix;
use svix::api::*;

use crate::call::{Answer, Call, Failure};

/// Reads an argument of an operation from a call: its body, or the part of its path with this number.
macro_rules! argument {
    ($call:ident, body) => {
        $call.body()?
    };
    ($call:ident, $part:literal) => {
        $call.path($part)?
    };
}

/// Defines the list of operations, and a function that calls one of them. The fields behind `with` are optional query
/// parameters.
macro_rules! operations {
    ($client:ident, $call:ident; $(
        $name:literal: $($resource:ident).+ => $method:ident($($argument:tt),*)
        $(with $kind:ident { $($field:ident),* $(,)? })?,
    )*) => {
        pub(crate) const OPERATIONS: &[&str] = &[$($name),*];

        pub(crate) async fn run($client: &Svix, $call: &Call) -> Answer {
            match $call.operation.as_str() {
                $($name => as_json($client$(.$resource())+.$method(
                    $(argument!($call, $argument),)*
                    $(Some($kind { $($field: $call.option(stringify!($field))?),* }))?
                ).await),)*
                other => Err(Failure::Unknown(format!("the operation {other} does not exist"))),
            }
        }
    };
}

fn as_json(answer: svix::Result<impl Serialize>) -> Answer {
    let answer = answer.map_err(Failure::Client)?;
    Ok::<Value, _>(serde_json::to_value(answer)?)
}

operations! { client, call;
    "application.list": application => list()
        with ApplicationListOptions {
            exclude_apps_with_no_endpoints, exclude_apps_with_disabled_endpoints,
            exclude_apps_with_svix_play_endpoints, limit, iterator, order,
        },
    "application.create": application => create(body) with ApplicationCreateOptions { idempotency_key },
    "application.get_or_create": application => get_or_create(body) with ApplicationCreateOptions { idempotency_key },
    "application.get": application => get(0),
    "application.upsert": application => upsert(0, body),
    "application.delete": application => delete(0),
    "application.patch": application => patch(0, body),
    "authentication.app_portal_access": authentication => app_portal_access(0, body)
        with AuthenticationAppPortalAccessOptions { idempotency_key },
    "authentication.logout": authentication => logout() with AuthenticationLogoutOptions { idempotency_key },
    "authentication.expire_all": authentication => expire_all(0, body)
        with AuthenticationExpireAllOptions { idempotency_key },
    "background_task.list": background_task => list()
        with BackgroundTaskListOptions { status, task, limit, iterator, order },
    "background_task.get": background_task => get(0),
    "endpoint.list": endpoint => list(0) with EndpointListOptions { limit, iterator, order },
    "endpoint.create": endpoint => create(0, body) with EndpointCreateOptions { idempotency_key },
    "endpoint.get": endpoint => get(0, 1),
    "endpoint.upsert": endpoint => upsert(0, 1, body),
    "endpoint.delete": endpoint => delete(0, 1),
    "endpoint.patch": endpoint => patch(0, 1, body),
    "endpoint.get_secret": endpoint => get_secret(0, 1),
    "endpoint.rotate_secret": endpoint => rotate_secret(0, 1, body)
        with EndpointRotateSecretOptions { idempotency_key },
    "endpoint.get_headers": endpoint => get_headers(0, 1),
    "endpoint.set_headers": endpoint => set_headers(0, 1, body),
    "endpoint.patch_headers": endpoint => patch_headers(0, 1, body),
    "endpoint.replay_missing": endpoint => replay_missing(0, 1, body)
        with EndpointReplayMissingOptions { idempotency_key },
    "endpoint.bulk_replay": endpoint => bulk_replay(0, 1, body) with EndpointBulkReplayOptions { idempotency_key },
    "endpoint.get_stats": endpoint => get_stats(0, 1) with EndpointGetStatsOptions { since, until },
    "endpoint.get_attempt_stats": endpoint => get_attempt_stats(0, 1)
        with EndpointGetAttemptStatsOptions { since, until },
    "endpoint.recover": endpoint => recover(0, 1, body) with EndpointRecoverOptions { idempotency_key },
    "endpoint.send_example": endpoint => send_example(0, 1, body) with EndpointSendExampleOptions { idempotency_key },
    "environment.export": environment => export() with EnvironmentExportOptions { idempotency_key },
    "environment.import_": environment => import(body) with EnvironmentImportOptions { idempotency_key },
    "event_type.list": event_type => list()
        with EventTypeListOptions { limit, iterator, order, include_archived, with_content },
    "event_type.create": event_type => create(body) with EventTypeCreateOptions { idempotency_key },
    "event_type.import_openapi": event_type => import_openapi(body)
        with EventTypeImportOpenapiOptions { idempotency_key },
    "event_type.get": event_type => get(0),
    "event_type.upsert": event_type => upsert(0, body),
    "event_type.delete": event_type => delete(0) with EventTypeDeleteOptions { expunge },
    "event_type.patch": event_type => patch(0, body),
    "health.get": health => get(),
    "integration.list": integration => list(0) with IntegrationListOptions { limit, iterator, order },
    "integration.create": integration => create(0, body) with IntegrationCreateOptions { idempotency_key },
    "integration.get": integration => get(0, 1),
    "integration.update": integration => update(0, 1, body),
    "integration.delete": integration => delete(0, 1),
    "integration.rotate_key": integration => rotate_key(0, 1) with IntegrationRotateKeyOptions { idempotency_key },
    "message.list": message => list(0)
        with MessageListOptions { limit, iterator, channel, before, after, with_content, tag, event_types },
    "message.create": message => create(0, body) with MessageCreateOptions { with_content, idempotency_key },
    "message.precheck": message => precheck(0, body) with MessagePrecheckOptions { idempotency_key },
    "message.get": message => get(0, 1) with MessageGetOptions { with_content },
    "message.expunge_content": message => expunge_content(0, 1),
    "message.bulk_expunge_content": message => bulk_expunge_content(0, body)
        with MessageBulkExpungeContentOptions { idempotency_key },
    "message.expunge_all_contents": message => expunge_all_contents(0)
        with MessageExpungeAllContentsOptions { idempotency_key },
    "message_attempt.list_by_endpoint": message_attempt => list_by_endpoint(0, 1)
        with MessageAttemptListByEndpointOptions {
            limit, iterator, status, status_code_class, channel, tag, before, after, with_content, with_msg,
            expanded_statuses, event_types,
        },
    "message_attempt.list_by_msg": message_attempt => list_by_msg(0, 1)
        with MessageAttemptListByMsgOptions {
            limit, iterator, status, status_code_class, channel, tag, endpoint_id, before, after, with_content,
            expanded_statuses, event_types,
        },
    "message_attempt.list_attempted_messages": message_attempt => list_attempted_messages(0, 1)
        with MessageAttemptListAttemptedMessagesOptions {
            limit, iterator, channel, tag, status, before, after, with_content, expanded_statuses, event_types,
        },
    "message_attempt.list_attempted_destinations": message_attempt => list_attempted_destinations(0, 1)
        with MessageAttemptListAttemptedDestinationsOptions { limit, iterator },
    "message_attempt.get": message_attempt => get(0, 1, 2) with MessageAttemptGetOptions { expanded_statuses },
    "message_attempt.expunge_content": message_attempt => expunge_content(0, 1, 2),
    "message_attempt.resend": message_attempt => resend(0, 1, 2) with MessageAttemptResendOptions { idempotency_key },
    "message.poller.poll": message.poller => poll(0, 1)
        with MessagePollerPollOptions { limit, iterator, event_type, channel, after },
    "message.poller.consumer_seek": message.poller => consumer_seek(0, 1, 2, body)
        with MessagePollerConsumerSeekOptions { idempotency_key },
    "message.poller.consumer_poll": message.poller => consumer_poll(0, 1, 2)
        with MessagePollerConsumerPollOptions { limit, iterator },
    "operational_webhook.endpoint.list": operational_webhook.endpoint => list()
        with OperationalWebhookEndpointListOptions { limit, iterator, order },
    "operational_webhook.endpoint.create": operational_webhook.endpoint => create(body)
        with OperationalWebhookEndpointCreateOptions { idempotency_key },
    "operational_webhook.endpoint.get": operational_webhook.endpoint => get(0),
    "operational_webhook.endpoint.upsert": operational_webhook.endpoint => upsert(0, body),
    "operational_webhook.endpoint.delete": operational_webhook.endpoint => delete(0),
    "operational_webhook.endpoint.get_secret": operational_webhook.endpoint => get_secret(0),
    "operational_webhook.endpoint.rotate_secret": operational_webhook.endpoint => rotate_secret(0, body)
        with OperationalWebhookEndpointRotateSecretOptions { idempotency_key },
    "operational_webhook.endpoint.get_headers": operational_webhook.endpoint => get_headers(0),
    "operational_webhook.endpoint.set_headers": operational_webhook.endpoint => set_headers(0, body),
    "statistics.aggregate_event_types": statistics => aggregate_event_types(),
    "statistics.aggregate_app_stats": statistics => aggregate_app_stats(body)
        with StatisticsAggregateAppStatsOptions { idempotency_key },
}
