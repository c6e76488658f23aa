//! Reads the numbers that explain a run from the server's metrics page.

use std::collections::BTreeMap;

/// The values of a metrics page by name. Samples with different labels are added up, except the buckets of histograms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    samples: BTreeMap<String, f64>,
    /// The buckets of histograms: the upper bound and the cumulative count.
    buckets: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Page {
    /// Parses a page and skips unknown lines.
    pub(crate) fn parse(text: &str) -> Page {
        let mut page = Page::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((sample, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
            match (name.strip_suffix("_bucket"), labels.split('"').nth(1)) {
                (Some(histogram), Some(bound)) => {
                    let bound = bound.parse().unwrap_or(f64::INFINITY);
                    page.buckets.entry(histogram.to_owned()).or_default().push((bound, value));
                }
                _ => *page.samples.entry(name.to_owned()).or_default() += value,
            }
        }
        page
    }

    /// The value of a counter or gauge.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.samples.get(name).copied().unwrap_or(0.0)
    }

    fn mean(&self, name: &str) -> f64 {
        let count = self.value(&format!("{name}_count"));
        if count > 0.0 { self.value(&format!("{name}_sum")) / count } else { 0.0 }
    }

    /// The upper bound of the bucket that contains this quantile of a histogram.
    pub(crate) fn quantile(&self, name: &str, share: f64) -> f64 {
        let Some(buckets) = self.buckets.get(name) else { return 0.0 };
        let count = buckets.iter().fold(0.0_f64, |most, (_, count)| most.max(*count));
        let within = |(_, at_most): &&(f64, f64)| *at_most >= count * share;
        buckets.iter().find(within).map_or(0.0, |(bound, _)| *bound)
    }

    /// Returns one line that explains the rate of a run.
    pub(crate) fn summary(&self) -> String {
        let attempts = self.value("everhook_attempts_total");
        let leased = self.value("everhook_tasks_leased_total");
        let share = if attempts > 0.0 { leased / attempts * 100.0 } else { 0.0 };
        let part = |name: &str| {
            let (size, seconds) = (format!("everhook_{name}_size"), format!("everhook_{name}_seconds"));
            let count = self.value(&format!("{seconds}_count"));
            format!("{name} {count:.0} × {:.1} in {:.2} ms", self.mean(&size), self.mean(&seconds) * 1e3)
        };
        format!(
            "{}; {}; leases {:.0} in {:.2} ms (p99 ≤ {:.1} ms), {leased:.0} tasks = {share:.1} % of {attempts:.0} \
             attempts, the rest by the fast path; lost {:.0}",
            part("append"),
            part("settle"),
            self.value("everhook_lease_seconds_count"),
            self.mean("everhook_lease_seconds") * 1e3,
            self.quantile("everhook_lease_seconds", 0.99) * 1e3,
            self.value("everhook_settlements_lost_total"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let page = Page::parse(
            "# HELP everhook_x X.\neverhook_attempts_total{class=\"ok\"} 3\neverhook_attempts_total{class=\"timeout\"} 1\n\
             everhook_lease_seconds_sum 0.5\neverhook_lease_seconds_count 100\n\
             everhook_lease_seconds_bucket{le=\"0.1\"} 98\neverhook_lease_seconds_bucket{le=\"0.3\"} 99\n\
             everhook_lease_seconds_bucket{le=\"+Inf\"} 100\n# EOF\n",
        );
        assert_eq!(page.value("everhook_attempts_total"), 4.0);
        assert_eq!(page.mean("everhook_lease_seconds"), 0.005);
        assert_eq!(page.quantile("everhook_lease_seconds", 0.99), 0.3);
    }
}
