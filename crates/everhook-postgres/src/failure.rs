//! Failure groups: dead deliveries by endpoint and class, and the marks of operators.

use everhook_core::id::{EndpointId, EnvironmentId};
use everhook_core::time::Timestamp;
use everhook_store::failure::{DeadCount, FailureGroups, FailureNote, MarkRow};
use everhook_store::sql::param::StoreClock;
use everhook_store::statement;

use crate::columns::Keys;
use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    ListDeadLane<'a> = "list_dead_lane" { environment: EnvironmentId, after: &'a [u8], limit: usize } -> Vec<EndpointId>;
    CountDead = "count_dead" { wanted: Keys, counted_max: usize } -> Vec<DeadCount>;
    ListFailureMark = "list_failure_mark" { wanted: Keys } -> Vec<MarkRow>;
}

impl PostgresStore {
    /// Lists the groups of the next lanes with dead tasks.
    pub(crate) async fn list_failures_once(
        &self,
        environment: EnvironmentId,
        after: Option<EndpointId>,
        (limit, counted_max): (usize, usize),
    ) -> Result<FailureGroups, Fault> {
        let after = after.map_or(Vec::new(), |id| id.as_bytes().to_vec());
        let lanes = self.database.read(ListDeadLane { environment, after: &after, limit }).await?;
        let next = lanes.last().copied().filter(|_| lanes.len() == limit);
        self.read_failures(environment, &lanes, counted_max, next).await
    }

    /// Reads the groups of one endpoint.
    pub(crate) async fn find_failures_once(
        &self,
        environment: EnvironmentId,
        endpoint: EndpointId,
        counted_max: usize,
    ) -> Result<FailureGroups, Fault> {
        self.read_failures(environment, &[endpoint], counted_max, None).await
    }

    async fn read_failures(
        &self,
        environment: EnvironmentId,
        lanes: &[EndpointId],
        counted_max: usize,
        next: Option<EndpointId>,
    ) -> Result<FailureGroups, Fault> {
        let wanted = || Keys::of(lanes.iter().map(|lane| (environment, lane.0)));
        let counts = self.database.read(CountDead { wanted: wanted(), counted_max }).await?;
        let marks = self.database.read(ListFailureMark { wanted: wanted() }).await?;
        Ok(FailureGroups::fold(counts, marks, next))
    }

    /// Marks a group; returns the time of the mark.
    pub(crate) async fn mark_failures_once(
        &self,
        environment: EnvironmentId,
        note: &FailureNote,
    ) -> Result<Timestamp, Fault> {
        self.database
            .write(note.put(environment, StoreClock::Database))
            .await?
            .ok_or(Fault::Contended("the mark returned no row"))
    }
}
