//! The image and the compose file.

use crate::{assert_setting, read, yaml};

/// The instructions of the Dockerfile: the word in capitals, and the rest with continued lines joined.
fn instructions() -> Vec<(String, String)> {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| line.split_once(' ').expect("an instruction has arguments"))
        .map(|(word, rest)| (word.to_owned(), rest.trim().to_owned()))
        .collect()
}

fn all(word: &str) -> Vec<String> {
    instructions().into_iter().filter(|(found, _)| found == word).map(|(_, rest)| rest).collect()
}

#[test]
fn the_image_is_built_by_the_compiler_of_the_repository_and_runs_without_root() {
    const KNOWN: [&str; 13] = [
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "LABEL",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
        "ARG",
    ];
    for (word, rest) in instructions() {
        assert!(KNOWN.contains(&word.as_str()), "{word} {rest}");
    }
    let toolchain = read("rust-toolchain.toml");
    let compiler = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    let stages = all("FROM");
    assert_eq!(stages.len(), 2, "a stage that builds, and a small one that runs");
    assert_eq!(stages[0], format!("rust:{compiler}-bookworm AS build"));
    assert!(stages[1].contains("distroless") && !stages[1].contains(" AS "), "{stages:?}");
    // Kubernetes cannot tell a name from root.
    assert_eq!(all("USER"), ["65532:65532"]);
    assert!(all("RUN").iter().any(|run| run.contains("cargo auditable build --profile dist --locked --bin everhook")));
    for variable in all("ENV") {
        assert_setting(variable.split_once('=').unwrap().0);
    }
    for list in all("ENTRYPOINT").iter().chain(&all("CMD")) {
        let words: Vec<String> = serde_json::from_str(list).expect("without a shell, only lists of words work");
        assert!(!words.is_empty());
    }
}

#[test]
fn the_context_of_the_image_has_the_sources_and_no_build_output() {
    let ignored = read("deploy/Dockerfile.dockerignore");
    let lines: Vec<_> = ignored.lines().collect();
    assert!(lines.contains(&"**") && lines.contains(&"**/target"), "{lines:?}");
    for needed in ["!Cargo.toml", "!Cargo.lock", "!.cargo", "!crates", "!xtask"] {
        assert!(lines.contains(&needed), "{needed}");
    }
}

#[test]
fn the_compose_file_has_replicas_with_their_database_and_monitoring() {
    let compose = yaml(&read("deploy/compose.yaml"));
    let services = compose["services"].as_object().unwrap();
    let names: Vec<_> = services.keys().map(String::as_str).collect();
    assert_eq!(names, ["everhook", "grafana", "postgres", "prometheus"]);
    let everhook = &services["everhook"];
    assert_eq!(everhook["deploy"]["replicas"], 3);
    for variable in everhook["environment"].as_object().unwrap().keys() {
        assert_setting(variable);
    }
    let grace = everhook["stop_grace_period"].as_str().unwrap().trim_end_matches('s').parse::<u32>().unwrap();
    assert!(grace > 5 + 20, "longer than stop_delay_seconds and grace_seconds");
    for service in services.values() {
        let image = service["image"].as_str().unwrap();
        assert!(image.contains("EVERHOOK_IMAGE") || image.contains(':') && !image.ends_with(":latest"), "{image}");
        for mount in service["volumes"].as_array().into_iter().flatten() {
            let source = mount.as_str().unwrap().split(':').next().unwrap();
            let is_here = source.strip_prefix("./").is_some_and(|path| crate::repository("deploy").join(path).exists());
            assert!(is_here || compose["volumes"].get(source).is_some(), "{mount}");
        }
    }
    // The range has one port for each replica.
    assert_eq!(everhook["ports"][0], "127.0.0.1:8071-8073:8071");
}
