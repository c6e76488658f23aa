//! Metrics of the process, read from `/proc` at each scrape. Elsewhere than on Linux there are none.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// The unit of processor times in `/proc`, which is the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// The unit of memory sizes in `/proc`.
const KIB: u64 = 1024;

/// Registers the metrics of the process, and the version as a label.
pub(crate) fn register(registry: &mut Registry, version: &'static str) {
    registry.register("build", "The version of this binary", Info::new([("version", version)]));
    registry.register_collector(Box::new(Process));
}

#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(seconds) = cpu_seconds() {
            let cpu = ConstCounter::new(seconds);
            let help = "Processor time that this process has used";
            cpu.encode(encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), cpu.metric_type())?)?;
        }
        if let Some(bytes) = resident_bytes() {
            let memory = ConstGauge::new(bytes);
            let help = "Resident memory of this process";
            let unit = Some(&Unit::Bytes);
            memory.encode(encoder.encode_descriptor("process_resident_memory", help, unit, memory.metric_type())?)?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            let files = ConstGauge::new(i64::try_from(files.count()).unwrap_or(i64::MAX));
            let help = "Open files and connections of this process";
            files.encode(encoder.encode_descriptor("process_open_files", help, None, files.metric_type())?)?;
        }
        Ok(())
    }
}

/// The processor time in user and system mode.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in parentheses and may contain spaces. The times are the 12th and 13th field after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    i64::try_from(kib * KIB).ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_the_use_of_processor_and_memory() {
        assert!(cpu_seconds().is_some_and(|seconds| seconds >= 0.0));
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1024 * 1024));
    }
}
