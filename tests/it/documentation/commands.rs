//! The commands of the pages, run as a reader runs them.

use crate::support::{Network, Page, root};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many pages run at a time.
const AT_ONCE: usize = 3;

/// Pages that begin in an empty folder.
const FROM_NOTHING: [&str; 4] = [
    "docs/start/install.md",
    "docs/start/demo.md",
    "docs/start/first-provider.md",
    "docs/reference/simulated-provider.md",
];

/// The guides begin where this page ends.
const BEGINNING: &str = "docs/start/first-provider.md";

/// Every page with the commands that lead to it.
fn pages() -> Vec<Page> {
    let simulated = |page: Page, path: &str| match path {
        BEGINNING => page.simulated(),
        _ => page,
    };
    let from_nothing = FROM_NOTHING.map(|path| simulated(Page::read(path), path));
    let folder = root().join("docs/guides");
    let mut guides: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    guides.sort();
    let guides = guides.iter().map(|path| {
        let path = path.strip_prefix(root()).unwrap();
        Page::read(path.to_str().unwrap())
    });
    let guides = guides
        .filter(Page::has_commands)
        .map(|page| Page::read(BEGINNING).before(&page).simulated());
    from_nothing.into_iter().chain(guides).collect()
}

#[tokio::test]
async fn the_commands_of_every_page_work() {
    let Some(network) = Network::new("the_commands_of_every_page_work").await else {
        return;
    };
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for page in pages() {
        let (network, permits) = (network.clone(), Arc::clone(&permits));
        running.spawn(async move {
            let _permit = permits.acquire().await.unwrap();
            let folder = TempDir::new().unwrap();
            let output = page.run(&network, folder.path()).await;
            page.fault(&output)
        });
    }
    let faults: Vec<_> = running.join_all().await.into_iter().flatten().collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
