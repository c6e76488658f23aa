//! The table.

use serde::Serialize;

use crate::receiver::Checked;

/// One scenario on one store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    pub(crate) store: String,
    /// Deliveries per second, or microseconds: see `unit`.
    pub(crate) runs: Vec<f64>,
    pub(crate) median: f64,
    pub(crate) unit: &'static str,
    /// The limit of the same run that it is compared with.
    pub(crate) limit: f64,
    /// Median over limit.
    pub(crate) ratio: f64,
    pub(crate) cpu_us_per_message: f64,
    pub(crate) wal_bytes_per_delivery: f64,
    pub(crate) resident_mib: f64,
    pub(crate) checked: Checked,
}

/// Every scenario that ran.
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
            "{:<22} {:<8} {:>10} {:>8} {:>6} {:>10} {:>7} {:>8} {:>8} {:>7}  CHECK\n",
            "SCENARIO", "STORE", "MEDIAN", "SPREAD", "UNIT", "LIMIT", "RATIO", "CPU/MSG", "WAL", "RSS"
        );
        for row in &self.rows {
            let (low, high) =
                row.runs.iter().fold((f64::MAX, 0.0_f64), |(low, high), run| (low.min(*run), high.max(*run)));
            let spread = if row.median > 0.0 { (high - low) / row.median * 100.0 } else { 0.0 };
            let Checked { lost, invented, duplicated } = row.checked;
            text += &format!(
                "{:<22} {:<8} {:>10.0} {:>7.0}% {:>6} {:>10.0} {:>6.1}% {:>6.0}us {:>7.0}B {:>4.0}MiB  \
                 lost {lost}, invented {invented}, duplicated {duplicated}\n",
                row.scenario,
                row.store,
                row.median,
                spread,
                row.unit,
                row.limit,
                row.ratio * 100.0,
                row.cpu_us_per_message,
                row.wal_bytes_per_delivery,
                row.resident_mib,
            );
        }
        text
    }
}

/// The middle of some numbers.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The value below which this share of some numbers lies.
pub(crate) fn percentile(values: &mut [u64], share: f64) -> f64 {
    values.sort_unstable();
    let at = ((values.len() as f64 - 1.0).max(0.0) * share).round() as usize;
    values.get(at).copied().unwrap_or(0) as f64
}
