//! The systemd unit and the release workflow.

use std::process::Command;

use crate::{has, read, run, yaml};

#[test]
fn the_unit_is_valid_and_hardened() {
    let unit = read("deploy/systemd/everhook.service");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
    assert_eq!(value("ExecStart"), "/usr/bin/everhook serve --config /etc/everhook/everhook.toml");
    assert_eq!(value("User"), "everhook");
    for (key, wanted) in [("NoNewPrivileges", "true"), ("ProtectSystem", "strict"), ("CapabilityBoundingSet", "")] {
        assert!(unit.contains(&format!("\n{key}=")) && value(key) == wanted, "{key}");
    }
    assert!(value("TimeoutStopSec").parse::<u32>().unwrap() > 5 + 20, "longer than the stop of a server");
    if !has("systemd-analyze") {
        return;
    }
    // The program and the user of the unit exist only where the package is installed.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("everhook.service");
    let here = unit.replace("/usr/bin/everhook", "/bin/true").replace("=everhook\n", "=root\n");
    std::fs::write(&file, here.replace("Documentation=man:everhook(1)\n", "")).unwrap();
    let told = run(Command::new("systemd-analyze").arg("verify").arg(&file));
    assert!(!told.contains("Unknown") && !told.contains("Failed to parse"), "{told}");
    let exposure =
        run(Command::new("systemd-analyze").args(["security", "--offline=true", "--threshold=25"]).arg(&file));
    assert!(exposure.contains("Overall exposure level"), "{exposure}");
}

#[test]
fn the_release_builds_packages_with_their_bills_of_materials() {
    let text = read(".github/workflows/release.yml");
    let workflow = yaml(&text);
    let jobs: Vec<_> = workflow["jobs"].as_object().unwrap().keys().collect();
    assert_eq!(jobs, ["build", "check", "image", "publish"]);
    for needed in ["cargo auditable build", "cargo cyclonedx", "cargo xtask package", "helm lint", "SHA256SUMS"] {
        assert!(text.contains(needed), "{needed}");
    }
    assert_eq!(workflow["permissions"]["contents"], "read", "jobs ask for more themselves");
}
