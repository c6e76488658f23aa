//! The result of an import: how many objects of each kind were written, and why others were not.

use serde_json::{Value, json};

use crate::output::{Answer, Part, Table};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    EventType,
    Application,
    Endpoint,
}

/// The effect on one object.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Created,
    Updated,
    Unchanged,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    created: u64,
    updated: u64,
    unchanged: u64,
    failed: u64,
}

struct Failure {
    kind: Kind,
    id: String,
    reason: String,
}

pub(super) struct Report {
    organization: String,
    environment: String,
    is_dry_run: bool,
    counts: [Counts; 3],
    failures: Vec<Failure>,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::EventType, Kind::Application, Kind::Endpoint];

    const fn singular(self) -> &'static str {
        match self {
            Kind::EventType => "event type",
            Kind::Application => "application",
            Kind::Endpoint => "endpoint",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Kind::EventType => "eventTypes",
            Kind::Application => "applications",
            Kind::Endpoint => "endpoints",
        }
    }
}

impl Report {
    pub(super) fn new(organization: &str, environment: &str, is_dry_run: bool) -> Report {
        Report {
            organization: organization.to_owned(),
            environment: environment.to_owned(),
            is_dry_run,
            counts: [Counts::default(); 3],
            failures: Vec::new(),
        }
    }

    /// Counts one object; the error is the reason why it was not imported.
    pub(super) fn count(&mut self, kind: Kind, id: &str, done: Result<Step, String>) {
        let counts = &mut self.counts[kind as usize];
        match done {
            Ok(Step::Created) => counts.created += 1,
            Ok(Step::Updated) => counts.updated += 1,
            Ok(Step::Unchanged) => counts.unchanged += 1,
            Err(reason) => {
                counts.failed += 1;
                self.failures.push(Failure { kind, id: id.to_owned(), reason });
            }
        }
    }

    pub(super) fn failures(&self) -> usize {
        self.failures.len()
    }

    /// One line about the objects so far.
    pub(super) fn progress(&self) -> String {
        let read = |kind: Kind| {
            let Counts { created, updated, unchanged, failed } = self.counts[kind as usize];
            created + updated + unchanged + failed
        };
        format!("read {} applications with {} endpoints", read(Kind::Application), read(Kind::Endpoint))
    }

    fn json(&self) -> Value {
        let mut report = json!({
            "organization": self.organization,
            "environment": self.environment,
            "dryRun": self.is_dry_run,
            "failures": self.failures.iter().map(|failure| {
                json!({ "kind": failure.kind.singular(), "id": failure.id, "error": failure.reason })
            }).collect::<Vec<_>>(),
        });
        for kind in Kind::ALL {
            let Counts { created, updated, unchanged, failed } = self.counts[kind as usize];
            report[kind.key()] =
                json!({ "created": created, "updated": updated, "unchanged": unchanged, "failed": failed });
        }
        report
    }

    pub(super) fn answer(&self) -> Answer {
        let row = |kind: Kind| {
            let Counts { created, updated, unchanged, failed } = self.counts[kind as usize];
            let [created, updated, unchanged, failed] = [created, updated, unchanged, failed].map(|n| n.to_string());
            [format!("{}s", kind.singular()), created, updated, unchanged, failed]
        };
        let heads = ["KIND", "CREATED", "UPDATED", "UNCHANGED", "FAILED"];
        let mut parts = vec![Part::Table(Table::new(heads, Kind::ALL, row))];
        parts.extend(self.failures.iter().map(|Failure { kind, id, reason }| {
            Part::Line(format!("not imported: {} {id}: {reason}", kind.singular()))
        }));
        if self.is_dry_run {
            parts.push(Part::Line("dry run: nothing was written".to_owned()));
        }
        Answer::object(self.json(), parts)
    }
}
