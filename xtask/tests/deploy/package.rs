//! The Debian package is built, unpacked and started.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{has, run};

/// The server that the other tests use, next to the binary of this task.
fn binary() -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("everhook");
    if !found.exists() {
        eprintln!("the everhook binary is not built: the package is not checked");
    }
    found.exists().then_some(found)
}

#[test]
fn the_package_installs_a_server_that_starts() {
    let Some(binary) = binary().filter(|_| has("dpkg-deb")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut package = Command::new(env!("CARGO_BIN_EXE_xtask"));
    package.args(["package", "--binary"]).arg(binary).arg("--output").arg(folder.path());
    // An unoptimised binary is large, and packing it well would take most of the time of the test.
    package.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip").env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    let told = run(package.current_dir(env!("CARGO_MANIFEST_DIR")));
    let file = PathBuf::from(told.trim());
    let contents = run(Command::new("dpkg-deb").arg("--contents").arg(&file));
    for wanted in [
        "-rwxr-xr-x root/root",
        "./usr/bin/everhook",
        "./usr/lib/systemd/system/everhook.service",
        "./etc/everhook/everhook.toml",
        "./usr/share/man/man1/everhook.1.gz",
        "./usr/share/man/man1/everhook-serve.1.gz",
        "./usr/share/bash-completion/completions/everhook",
    ] {
        assert!(contents.contains(wanted), "{wanted} is not in {contents}");
    }
    let root = folder.path().join("root");
    run(Command::new("dpkg-deb").arg("--raw-extract").arg(&file).arg(&root));
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh").arg("-n").arg(root.join("DEBIAN").join(script)));
    }
    let field = |name: &str| run(Command::new("dpkg-deb").arg("--field").arg(&file).arg(name)).trim().to_owned();
    assert_eq!((field("Package").as_str(), field("Version").as_str()), ("everhook", env!("CARGO_PKG_VERSION")));
    assert!(field("Depends").contains("libc6 (>= "), "{}", field("Depends"));
    start(&root, &folder.path().join("data"));
}

/// Starts the unpacked server with its settings, on a folder that the test may write to.
fn start(root: &Path, data: &Path) {
    let mut server = Command::new(root.join("usr/bin/everhook"));
    server.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    server.arg("--config").arg(root.join("etc/everhook/everhook.toml"));
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut greeting = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(greeting.contains(" listens on http://127.0.0.1:"), "{greeting:?}");
}
