//! The suite that every store must pass, on a file and in memory.

use std::sync::Arc;

use everhook_sqlite::{OpenAs, SqliteStore};
use everhook_store::ids::Ids;
use everhook_testkit::conformance::{Backend, Fresh};

mod file {
    use super::*;

    struct File;

    impl Backend for File {
        type Store = SqliteStore;

        async fn fresh() -> Fresh<SqliteStore> {
            let folder = tempfile::tempdir().unwrap();
            let open = |open_as| SqliteStore::open(folder.path(), open_as, Arc::new(Ids::from_system())).unwrap();
            let (server, beside) = (open(OpenAs::Server), open(OpenAs::Beside));
            Fresh::two(server, beside, folder)
        }
    }

    everhook_testkit::conformance_full!(File);
}

mod memory {
    use super::*;

    struct Memory;

    impl Backend for Memory {
        type Store = SqliteStore;

        async fn fresh() -> Fresh<SqliteStore> {
            Fresh::one(SqliteStore::open_in_memory(Arc::new(Ids::from_system())).unwrap(), ())
        }
    }

    everhook_testkit::conformance_full!(Memory);
}
