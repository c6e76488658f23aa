//! Every operation of the svix crate that the contract tests exercise, by its name in the Python package.

use serde::Serialize;
use serde_json::Value;
use svix::Svix;
use svix::api::*;

use crate::call::{Answer, Call, Failure};

/// Builds the optional query parameters of an operation from the fields of a call.
macro_rules! options {
    ($call:ident, $kind:ident { $($field:ident),* $(,)? }) => {
        Some($kind { $($field: $call.option(stringify!($field))?),* })
    };
}

/// Defines the list of operations, and a function that calls one of them.
macro_rules! operations {
    ($client:ident, $call:ident; $($name:literal => $answer:expr,)*) => {
        pub(crate) const OPERATIONS: &[&str] = &[$($name),*];

        pub(crate) async fn run($client: &Svix, $call: &Call) -> Answer {
            match $call.operation.as_str() {
                $($name => as_json($answer.await),)*
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
    "application.list" => client.application().list(
        options!(call, ApplicationListOptions {
            exclude_apps_with_no_endpoints, exclude_apps_with_disabled_endpoints,
            exclude_apps_with_svix_play_endpoints, limit, iterator, order,
        }),
    ),
    "application.create" => client.application().create(
        call.body()?,
        options!(call, ApplicationCreateOptions { idempotency_key }),
    ),
    "application.get_or_create" => client.application().get_or_create(
        call.body()?,
        options!(call, ApplicationCreateOptions { idempotency_key }),
    ),
    "application.get" => client.application().get(call.path(0)?),
    "application.upsert" => client.application().upsert(call.path(0)?, call.body()?),
    "application.delete" => client.application().delete(call.path(0)?),
    "application.patch" => client.application().patch(call.path(0)?, call.body()?),
    "authentication.app_portal_access" => client.authentication().app_portal_access(
        call.path(0)?,
        call.body()?,
        options!(call, AuthenticationAppPortalAccessOptions { idempotency_key }),
    ),
    "authentication.logout" => client.authentication().logout(
        options!(call, AuthenticationLogoutOptions { idempotency_key }),
    ),
    "authentication.expire_all" => client.authentication().expire_all(
        call.path(0)?,
        call.body()?,
        options!(call, AuthenticationExpireAllOptions { idempotency_key }),
    ),
    "background_task.list" => client.background_task().list(
        options!(call, BackgroundTaskListOptions { status, task, limit, iterator, order }),
    ),
    "background_task.get" => client.background_task().get(call.path(0)?),
    "endpoint.list" => client.endpoint().list(
        call.path(0)?,
        options!(call, EndpointListOptions { limit, iterator, order }),
    ),
    "endpoint.create" => client.endpoint().create(
        call.path(0)?,
        call.body()?,
        options!(call, EndpointCreateOptions { idempotency_key }),
    ),
    "endpoint.get" => client.endpoint().get(call.path(0)?, call.path(1)?),
    "endpoint.upsert" => client.endpoint().upsert(call.path(0)?, call.path(1)?, call.body()?),
    "endpoint.delete" => client.endpoint().delete(call.path(0)?, call.path(1)?),
    "endpoint.patch" => client.endpoint().patch(call.path(0)?, call.path(1)?, call.body()?),
    "endpoint.get_secret" => client.endpoint().get_secret(call.path(0)?, call.path(1)?),
    "endpoint.rotate_secret" => client.endpoint().rotate_secret(
        call.path(0)?,
        call.path(1)?,
        call.body()?,
        options!(call, EndpointRotateSecretOptions { idempotency_key }),
    ),
    "endpoint.get_headers" => client.endpoint().get_headers(call.path(0)?, call.path(1)?),
    "endpoint.set_headers" => client.endpoint().set_headers(call.path(0)?, call.path(1)?, call.body()?),
    "endpoint.patch_headers" => client.endpoint().patch_headers(call.path(0)?, call.path(1)?, call.body()?),
    "endpoint.replay_missing" => client.endpoint().replay_missing(
        call.path(0)?,
        call.path(1)?,
        call.body()?,
        options!(call, EndpointReplayMissingOptions { idempotency_key }),
    ),
    "endpoint.bulk_replay" => client.endpoint().bulk_replay(
        call.path(0)?,
        call.path(1)?,
        call.body()?,
        options!(call, EndpointBulkReplayOptions { idempotency_key }),
    ),
    "endpoint.get_stats" => client.endpoint().get_stats(
        call.path(0)?,
        call.path(1)?,
        options!(call, EndpointGetStatsOptions { since, until }),
    ),
    "endpoint.get_attempt_stats" => client.endpoint().get_attempt_stats(
        call.path(0)?,
        call.path(1)?,
        options!(call, EndpointGetAttemptStatsOptions { since, until }),
    ),
    "endpoint.recover" => client.endpoint().recover(
        call.path(0)?,
        call.path(1)?,
        call.body()?,
        options!(call, EndpointRecoverOptions { idempotency_key }),
    ),
    "endpoint.send_example" => client.endpoint().send_example(
        call.path(0)?,
        call.path(1)?,
        call.body()?,
        options!(call, EndpointSendExampleOptions { idempotency_key }),
    ),
    "environment.export" => client.environment().export(options!(call, EnvironmentExportOptions { idempotency_key })),
    "environment.import_" => client.environment().import(
        call.body()?,
        options!(call, EnvironmentImportOptions { idempotency_key }),
    ),
    "event_type.list" => client.event_type().list(
        options!(call, EventTypeListOptions { limit, iterator, order, include_archived, with_content }),
    ),
    "event_type.create" => client.event_type().create(
        call.body()?,
        options!(call, EventTypeCreateOptions { idempotency_key }),
    ),
    "event_type.import_openapi" => client.event_type().import_openapi(
        call.body()?,
        options!(call, EventTypeImportOpenapiOptions { idempotency_key }),
    ),
    "event_type.get" => client.event_type().get(call.path(0)?),
    "event_type.upsert" => client.event_type().upsert(call.path(0)?, call.body()?),
    "event_type.delete" => client.event_type().delete(
        call.path(0)?,
        options!(call, EventTypeDeleteOptions { expunge }),
    ),
    "event_type.patch" => client.event_type().patch(call.path(0)?, call.body()?),
    "health.get" => client.health().get(),
    "integration.list" => client.integration().list(
        call.path(0)?,
        options!(call, IntegrationListOptions { limit, iterator, order }),
    ),
    "integration.create" => client.integration().create(
        call.path(0)?,
        call.body()?,
        options!(call, IntegrationCreateOptions { idempotency_key }),
    ),
    "integration.get" => client.integration().get(call.path(0)?, call.path(1)?),
    "integration.update" => client.integration().update(call.path(0)?, call.path(1)?, call.body()?),
    "integration.delete" => client.integration().delete(call.path(0)?, call.path(1)?),
    "integration.rotate_key" => client.integration().rotate_key(
        call.path(0)?,
        call.path(1)?,
        options!(call, IntegrationRotateKeyOptions { idempotency_key }),
    ),
    "message.list" => client.message().list(
        call.path(0)?,
        options!(call, MessageListOptions {
            limit, iterator, channel, before, after, with_content, tag, event_types,
        }),
    ),
    "message.create" => client.message().create(
        call.path(0)?,
        call.body()?,
        options!(call, MessageCreateOptions { with_content, idempotency_key }),
    ),
    "message.precheck" => client.message().precheck(
        call.path(0)?,
        call.body()?,
        options!(call, MessagePrecheckOptions { idempotency_key }),
    ),
    "message.get" => client.message().get(
        call.path(0)?,
        call.path(1)?,
        options!(call, MessageGetOptions { with_content }),
    ),
    "message.expunge_content" => client.message().expunge_content(call.path(0)?, call.path(1)?),
    "message.bulk_expunge_content" => client.message().bulk_expunge_content(
        call.path(0)?,
        call.body()?,
        options!(call, MessageBulkExpungeContentOptions { idempotency_key }),
    ),
    "message.expunge_all_contents" => client.message().expunge_all_contents(
        call.path(0)?,
        options!(call, MessageExpungeAllContentsOptions { idempotency_key }),
    ),
    "message_attempt.list_by_endpoint" => client.message_attempt().list_by_endpoint(
        call.path(0)?,
        call.path(1)?,
        options!(call, MessageAttemptListByEndpointOptions {
            limit, iterator, status, status_code_class, channel, tag, before, after, with_content,
            with_msg, expanded_statuses, event_types,
        }),
    ),
    "message_attempt.list_by_msg" => client.message_attempt().list_by_msg(
        call.path(0)?,
        call.path(1)?,
        options!(call, MessageAttemptListByMsgOptions {
            limit, iterator, status, status_code_class, channel, tag, endpoint_id, before, after,
            with_content, expanded_statuses, event_types,
        }),
    ),
    "message_attempt.list_attempted_messages" => client.message_attempt().list_attempted_messages(
        call.path(0)?,
        call.path(1)?,
        options!(call, MessageAttemptListAttemptedMessagesOptions {
            limit, iterator, channel, tag, status, before, after, with_content, expanded_statuses,
            event_types,
        }),
    ),
    "message_attempt.list_attempted_destinations" => client.message_attempt().list_attempted_destinations(
        call.path(0)?,
        call.path(1)?,
        options!(call, MessageAttemptListAttemptedDestinationsOptions { limit, iterator }),
    ),
    "message_attempt.get" => client.message_attempt().get(
        call.path(0)?,
        call.path(1)?,
        call.path(2)?,
        options!(call, MessageAttemptGetOptions { expanded_statuses }),
    ),
    "message_attempt.expunge_content" => client.message_attempt().expunge_content(
        call.path(0)?,
        call.path(1)?,
        call.path(2)?,
    ),
    "message_attempt.resend" => client.message_attempt().resend(
        call.path(0)?,
        call.path(1)?,
        call.path(2)?,
        options!(call, MessageAttemptResendOptions { idempotency_key }),
    ),
    "message.poller.poll" => client.message().poller().poll(
        call.path(0)?,
        call.path(1)?,
        options!(call, MessagePollerPollOptions { limit, iterator, event_type, channel, after }),
    ),
    "message.poller.consumer_seek" => client.message().poller().consumer_seek(
        call.path(0)?,
        call.path(1)?,
        call.path(2)?,
        call.body()?,
        options!(call, MessagePollerConsumerSeekOptions { idempotency_key }),
    ),
    "message.poller.consumer_poll" => client.message().poller().consumer_poll(
        call.path(0)?,
        call.path(1)?,
        call.path(2)?,
        options!(call, MessagePollerConsumerPollOptions { limit, iterator }),
    ),
    "operational_webhook.endpoint.list" => client.operational_webhook().endpoint().list(
        options!(call, OperationalWebhookEndpointListOptions { limit, iterator, order }),
    ),
    "operational_webhook.endpoint.create" => client.operational_webhook().endpoint().create(
        call.body()?,
        options!(call, OperationalWebhookEndpointCreateOptions { idempotency_key }),
    ),
    "operational_webhook.endpoint.get" => client.operational_webhook().endpoint().get(call.path(0)?),
    "operational_webhook.endpoint.upsert" => client.operational_webhook().endpoint().upsert(
        call.path(0)?,
        call.body()?,
    ),
    "operational_webhook.endpoint.delete" => client.operational_webhook().endpoint().delete(call.path(0)?),
    "operational_webhook.endpoint.get_secret" => client.operational_webhook().endpoint().get_secret(call.path(0)?),
    "operational_webhook.endpoint.rotate_secret" => client.operational_webhook().endpoint().rotate_secret(
        call.path(0)?,
        call.body()?,
        options!(call, OperationalWebhookEndpointRotateSecretOptions { idempotency_key }),
    ),
    "operational_webhook.endpoint.get_headers" => client.operational_webhook().endpoint().get_headers(call.path(0)?),
    "operational_webhook.endpoint.set_headers" => client.operational_webhook().endpoint().set_headers(
        call.path(0)?,
        call.body()?,
    ),
    "statistics.aggregate_event_types" => client.statistics().aggregate_event_types(),
    "statistics.aggregate_app_stats" => client.statistics().aggregate_app_stats(
        call.body()?,
        options!(call, StatisticsAggregateAppStatsOptions { idempotency_key }),
    ),
}
