//! The table of results.

use serde::Serialize;

use crate::bench::Ran;
use crate::receiver::Checked;

/// One measurement on one store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    pub(crate) store: &'static str,
    /// One value per run, in `unit`.
    pub(crate) runs: Vec<f64>,
    pub(crate) median: f64,
    pub(crate) unit: &'static str,
    /// The reference value in the same unit: a limit or a baseline. A measured one comes from the same run.
    pub(crate) limit: f64,
    /// The median divided by the limit.
    pub(crate) ratio: f64,
    /// The target for the ratio or the value, as text.
    pub(crate) target: &'static str,
    pub(crate) cpu_us_per_message: f64,
    pub(crate) wal_bytes_per_delivery: f64,
    pub(crate) resident_mib: f64,
    pub(crate) checked: Checked,
    /// Further information about the measurement.
    pub(crate) note: String,
}

/// The collected runs of one measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub(crate) values: Vec<f64>,
    pub(crate) limits: Vec<f64>,
    cpu_us: Vec<f64>,
    wal_bytes: Vec<f64>,
    peak_mib: f64,
    pub(crate) checked: Checked,
    pub(crate) note: String,
}

impl Runs {
    /// Adds the value of one run, and its reference value.
    pub(crate) fn push(&mut self, value: f64, limit: f64) {
        self.values.push(value);
        self.limits.push(limit);
    }

    /// Adds the cost of a run's traffic, and the result of its check.
    pub(crate) fn cost(&mut self, ran: &Ran) {
        self.cpu_us.push(ran.cpu_us);
        self.wal_bytes.push(ran.wal_bytes);
        self.peak_mib = self.peak_mib.max(ran.peak_mib);
        self.checked.add(ran.checked);
    }

    pub(crate) fn row(self, scenario: &str, store: &'static str, unit: &'static str, target: &'static str) -> Row {
        let (median, limit) = (middle(&self.values), middle(&self.limits));
        Row {
            scenario: scenario.to_owned(),
            store,
            median,
            unit,
            limit,
            ratio: if limit > 0.0 { median / limit } else { 0.0 },
            target,
            cpu_us_per_message: middle(&self.cpu_us),
            wal_bytes_per_delivery: middle(&self.wal_bytes),
            resident_mib: self.peak_mib,
            checked: self.checked,
            note: self.note,
            runs: self.values,
        }
    }
}

/// The results of all scenarios.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
}

impl Report {
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    pub(crate) fn to_table(&self) -> String {
        let mut text = format!(
            "{:<26} {:<8} {:>10} {:>8} {:>6} {:>10} {:>8} {:<18} {:>8} {:>8} {:>7}  CHECK\n",
            "SCENARIO", "STORE", "MEDIAN", "SPREAD", "UNIT", "LIMIT", "RATIO", "TARGET", "CPU/MSG", "WAL", "RSS"
        );
        for row in &self.rows {
            text += &row.line();
        }
        text
    }
}

impl Row {
    fn line(&self) -> String {
        let (low, high) =
            self.runs.iter().fold((f64::MAX, 0.0_f64), |(low, high), run| (low.min(*run), high.max(*run)));
        let spread = if self.median > 0.0 { (high - low) / self.median * 100.0 } else { 0.0 };
        let Checked { lost, invented, duplicated } = self.checked;
        let note = if self.note.is_empty() { String::new() } else { format!("; {}", self.note) };
        format!(
            "{:<26} {:<8} {:>10.1} {:>7.0}% {:>6} {:>10.1} {:>7.1}% {:<18} {:>6.0}us {:>7.0}B {:>4.0}MiB  \
             lost {lost}, invented {invented}, duplicated {duplicated}{note}\n",
            self.scenario,
            self.store,
            self.median,
            spread,
            self.unit,
            self.limit,
            self.ratio * 100.0,
            self.target,
            self.cpu_us_per_message,
            self.wal_bytes_per_delivery,
            self.resident_mib,
        )
    }
}

/// The median.
pub(crate) fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The value below which this share of the numbers lies.
pub(crate) fn percentile(values: &mut [u64], share: f64) -> f64 {
    values.sort_unstable();
    let at = ((values.len() as f64 - 1.0).max(0.0) * share).round() as usize;
    values.get(at).copied().unwrap_or(0) as f64
}
