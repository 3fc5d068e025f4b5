//! What the README shows of `serve --standalone` is what happens.

use meshgate::metrics::Hook;
use serde_json::Value;

use super::program::ExampleDir;
use super::review;
use crate::docs::page;
use crate::hooks::path;

/// The first block of the README that begins with this text, without it.
fn block(begin: &str) -> String {
    let readme = page("README.md");
    let mut blocks = readme.split("```console\n").skip(1);
    let block = blocks.find_map(|block| block.split("```").next().unwrap().strip_prefix(begin));
    block
        .unwrap_or_else(|| panic!("no block begins with {begin}"))
        .to_owned()
}

/// Every line of the README's banner is printed; what differs from start to start, or because the test
/// works in a folder of its own, counts as the same.
#[tokio::test]
async fn the_readme_shows_the_banner() {
    let shown = block("$ cargo run --release -- serve --standalone examples/cluster\n");
    let place = ExampleDir::new();
    let program = place.start(&[]).await;
    let folder = place.path("").display().to_string();
    let same = |text: &str| -> Vec<String> {
        let text = text
            .replace(&folder, "")
            .replace("examples/cluster", "cluster");
        let lines = text.lines().map(|line| {
            let words = line.split(' ').map(|word| {
                let is_address = word.contains("127.0.0.1:");
                let is_date =
                    word.len() == 11 && word.ends_with(')') && word.matches('-').count() == 2;
                match word.rsplit_once(':') {
                    Some((before, after)) if is_address => {
                        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
                        format!("{before}:PORT{after}")
                    }
                    _ if is_date => "DATE)".to_owned(),
                    _ => word.to_owned(),
                }
            });
            words.collect::<Vec<_>>().join(" ")
        });
        lines.collect()
    };
    let shown = same(&shown);
    let printed = same(&program.banner());
    assert!(shown.len() > 10, "{shown:#?}");
    let printed = printed.get(..shown.len()).unwrap_or(&printed);
    assert_eq!(shown, printed);
}

/// The refusal of its first screen is the answer to the review that it sends, key for key.
#[tokio::test]
async fn the_readme_shows_the_refusal() {
    let readme = page("README.md");
    let shown = block(
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\n",
    );
    let shown = format!(
        "{{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{{{shown}"
    );
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(readme.contains("--data @examples/reviews/orders-pod.json"));
    let place = ExampleDir::new();
    let program = place.start(&[]).await;
    let body = review(&place, "orders").to_string();
    let mut client = program.client().await;
    let answer = client
        .post(path(Hook::Gate), "application/json", body)
        .await;
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(shown, answer);
}

/// Once the README's edit made one endpoint ready, the log and the patch are those that it shows.
#[tokio::test]
async fn the_readme_shows_the_admission() {
    let place = ExampleDir::new();
    let program = place.start(&[]).await;
    let readme = page("README.md");
    let (_, edit) = readme.split_once("sed -i 's/").unwrap();
    let (from, rest) = edit.split_once('/').unwrap();
    let to = rest.split('/').next().unwrap();
    place.edit("cluster/linkerd.yaml", from, to);
    let logged = readme.lines().find_map(|line| line.split_once("  INFO "));
    let (_, logged) = logged.unwrap();
    program.logged(&[logged]).await;
    let review = review(&place, "orders");
    let verdict = program.ask(Hook::Gate, &review).await;
    assert!(verdict.allowed, "{}", verdict.message);
    let patch = readme.lines().find(|line| line.starts_with("[{\"op\":"));
    let patch: Value = serde_json::from_str(patch.unwrap()).unwrap();
    let mut marked = review["request"]["object"].clone();
    json_patch::patch(
        &mut marked,
        &serde_json::from_value::<json_patch::Patch>(patch).unwrap(),
    )
    .unwrap();
    let mut wrong = Vec::new();
    assert_eq!(
        verdict.patched(&review["request"]["object"], &mut wrong),
        marked
    );
    assert_eq!(wrong, [""; 0]);
}
