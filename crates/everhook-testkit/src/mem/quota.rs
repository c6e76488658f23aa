//! Quotas, and counts of the objects that they bound.

use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_core::limits::QUOTAS_READ_MAX;
use everhook_core::operational::OPERATIONAL_APPLICATION;
use everhook_core::quota::Quota;
use everhook_core::time::Timestamp;
use everhook_store::quota::{MessageCount, MessagePlace};
use everhook_store::resource::Resource;

use crate::mem::MemStore;

impl MemStore {
    pub(super) fn list_quotas(&self, since: Timestamp) -> Vec<(EnvironmentId, Quota)> {
        let (tables, _) = self.lock();
        let all = tables.resources.iter().filter_map(|((environment, ..), entry)| match &entry.resource {
            Resource::Quota(quota) if quota.updated_at >= since => Some((*environment, quota.clone())),
            _ => None,
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(_, quota)| quota.updated_at);
        all.truncate(QUOTAS_READ_MAX);
        all
    }

    pub(super) fn count_endpoints(
        &self,
        environment: EnvironmentId,
        application: Option<ApplicationId>,
        limit: usize,
    ) -> usize {
        let (tables, _) = self.lock();
        let counts = |endpoint: &Endpoint| {
            endpoint.application != OPERATIONAL_APPLICATION && application.is_none_or(|id| id == endpoint.application)
        };
        let open = tables.resources.iter().filter(|((env, ..), entry)| *env == environment && !entry.deleted);
        let endpoints =
            open.filter(|(_, entry)| matches!(&entry.resource, Resource::Endpoint(endpoint) if counts(endpoint)));
        endpoints.take(limit).count()
    }

    pub(super) fn count_messages(
        &self,
        environment: EnvironmentId,
        application: Option<ApplicationId>,
        after: Option<MessagePlace>,
        limit: usize,
    ) -> MessageCount {
        let (tables, _) = self.lock();
        let keys = tables
            .messages
            .keys()
            .filter(|(env, of, _)| *env == environment && application.is_none_or(|application| application == *of));
        let places = keys.map(|(_, of, id)| (*of, *id)).filter(|place| after.is_none_or(|after| *place > after));
        let page: Vec<MessagePlace> = places.take(limit).collect();
        MessageCount::of(page.len() as u64, page.last().copied(), limit)
    }
}
