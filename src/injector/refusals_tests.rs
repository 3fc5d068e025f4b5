use crate::injector::Injectors;
fn error(text: &str) -> String {
    match Injectors::from_yaml("c.yaml", text.as_bytes()) { Ok(_) => "OK".into(), Err(e) => e.to_string() }
}
#[test]
fn show() {
    let c = |body: &str| format!("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\n{body}");
    let p = |more: &str| c(&format!("injectors:\n- name: x\n  webhook: x.example.com\n  service: {{namespace: x, name: x}}\n  meshed: [{{sidecar: x}}]\n  rules:\n  - {{when: [{{podLabel: k, in: [a]}}], then: required}}\n{more}"));
    let rl = |rule: &str| c(&format!("injectors:\n- name: x\n  webhook: x.example.com\n  service: {{namespace: x, name: x}}\n  meshed: [{{sidecar: x}}]\n  options: {{extra: true}}\n  rules:\n  - {rule}\n"));
    let me = |m: &str| c(&format!("injectors:\n- name: x\n  webhook: x.example.com\n  service: {{namespace: x, name: x}}\n  rules:\n  - {{when: [{{podLabel: k, in: [a]}}], then: required}}\n  meshed:\n  - {m}\n"));
    let bodies = [
        c("injectors: []\n"), c("injectors:\n"), c("injectors: {}\n"), c("injectors: [linkerd]\n"), c(""), c("injectors:\n- preset: linkerd\nfoo: 1\n"),
        c("injectors:\n- preset: linkerd\nkind: Configuration\n"), "apiVersion: v1\nkind: Configuration\ninjectors: [{preset: linkerd}]".into(),
        "apiVersion: meshgate.io/v1alpha1\nkind: Pod\ninjectors: [{preset: linkerd}]".into(),
        "".into(), "# x\n---\n---\n".into(), "foo".into(), "- a\n".into(), c("injectors:\n- preset: linkerd\n---\na: b\n"),
        c("injectors:\n- preset: linkerdx\n"), c("injectors:\n- preset: linkerd\n- preset: linkerd\n"),
        c("injectors:\n- preset: linkerd\n  rules:\n  - {}\n"), c("injectors:\n- preset: linkerd\n  rules: []\n"),
        c("injectors:\n- preset: linkerd\n  options: {byDefault: true}\n"), c("injectors:\n- preset: istio\n  options: {byDefaults: true}\n"),
        c("injectors:\n- preset: istio\n  options: {byDefault: yes}\n"), c("injectors:\n- preset: istio\n  options: {byDefault: 1}\n"),c("injectors:\n- preset: istio\n  options: {byDefault: \"true\"}\n"),
        c("injectors:\n- preset: linkerd\n  mode: off\n"), c("injectors:\n- preset: linkerd\n  mode: strict\n"), c("injectors:\n- preset: linkerd\n  mode:\n"),
        c("injectors:\n- preset: linkerd\n  minimum: 0\n"), c("injectors:\n- preset: linkerd\n  minimum: -1\n"), c("injectors:\n- preset: linkerd\n  minimum: two\n"), c("injectors:\n- preset: linkerd\n  minimum: 99999999999\n"),
        c("injectors:\n- preset: linkerd\n  instances: {webhookLabels: [a], fallback: {namespace: a, name: 'a-{instance}'}}\n"),
        c("injectors:\n- preset: istio\n  instances: {webhookLabels: [a], fallback: {namespace: a, name: a}}\n"),
        c("injectors:\n- preset: istio\n  service: {namespace: a}\n"), c("injectors:\n- preset: istio\n  service: {namespace: a, name: 'a b'}\n"), c("injectors:\n- preset: istio\n  service: a/b\n"),
        c("injectors:\n- preset: istio\n  namespaces: {only: []}\n"), c("injectors:\n- preset: istio\n  namespaces: {only: [a, a]}\n"), c("injectors:\n- preset: istio\n  namespaces: {only: [A]}\n"),c("injectors:\n- preset: istio\n  namespaces: {only: a}\n"),
        c("injectors:\n- preset: istio\n  namespaces: {only: [1]}\n"),
        c("injectors:\n- preset: istio\nexcludedNamespaces: []\n"), c("injectors:\n- preset: istio\nexcludedNamespaces: [yes]\n"), c("injectors:\n- preset: istio\nexcludedNamespaces: [~]\n"), c("injectors:\n- preset: istio\nexcludedNamespaces:\n"),
        c("injectors:\n- preset: true\n"), c("injectors:\n- preset: y\n"), c("injectors:\n- preset: [a]\n"),
        p(""), p("  foo: 1\n"), p("  name: y\n"), p("  webhooks: y\n"), p("  path: x\n"), p("  path: ''\n"), p("  hint: \"a\\tb\"\n"), p("  hint: |\n    a\n    b\n"), p("  skips: {containers: []}\n"), p("  skips: {}\n"),
        p("  validator: {container: '', exitCode: 1}\n"), p("  validator: {container: a, exitCode: x}\n"), p("  validator: {container: a}\n"), p("  cni: {namespaces: [], podLabel: {a: b}}\n"), p("  cni: {namespaces: [a], podLabel: {}}\n"), p("  cni: {namespaces: [a], podLabel: {a: true}}\n"), p("  readiness: ready\n"),
        p("\tx: y\n"), p("  x: [\n"), p("  x: *nope\n"), p("  hint: \"a\n"), p("  hint: !!binary aGk=\n"), p("  <<: {hint: a}\n"),
        rl("{when: [], then: required}"), rl("{option: nope, when: [], then: required}"), rl("{when: [{podLabel: k, in: []}], then: required}"), rl("{when: [{podLabel: k, in: [a, a]}], then: required}"),
        rl("{when: [{podAnnotation: k, fold: true, in: [a, A]}], then: required}"), rl("{when: [{podLabel: k, fold: true, in: [a]}], then: required}"), rl("{when: [{podAnnotation: k, fold: true, exists: true}], then: required}"),
        rl("{when: [{podLabel: k, podAnnotation: k, in: [a]}], then: required}"), rl("{when: [{in: [a]}], then: required}"), rl("{when: [{podLabel: k, in: [a], exists: true}], then: required}"), rl("{when: [{podLabel: k}], then: required}"),
        rl("{when: [{podLabel: k, in: [true]}], then: required}"), rl("{when: [{podLabel: k, in: [1]}], then: required}"), rl("{when: [{podLabel: k, in: [yes]}], then: required}"), rl("{when: [{podLabel: k, in: [1.5]}], then: required}"), rl("{when: [{podLabel: k, in: [null]}], then: required}"), rl("{when: [{podLabel: k, in: true}], then: required}"), rl("{when: [{podLabel: 1, in: [a]}], then: required}"),
        rl("{when: [{podLabel: k, exists: \"true\"}], then: required}"), rl("{when: [{podLabel: k, exists: yes}], then: required}"), rl("{when: [{podLabel: 'k k', in: [a]}], then: required}"), rl("{when: [{podLabel: k, in: ['a b']}], then: required}"),
        rl("{when: [{podLabel: k, in: [a]}], then: require}"), rl("{when: [{podLabel: k, in: [a]}]}"), rl("{then: required}"), rl("{when: [{podLabel: k, in: [a]}], then: required, instance: a}"), rl("{when: [{podLabel: k, in: [a]}], then: required, warn: ''}"), rl("{when: [{podLabel: k, in: [a]}], then: required, warn: \"a\\nb\"}"),
        rl("{when: [{podLabel: k, in: [a]}, {podLabel: k, in: [b]}], then: required}"), rl("{when: [{podLabels: k, in: [a]}], then: required}"), rl("{when: {podLabel: k, in: [a]}, then: required}"), rl("{when: [{podLabel: k, in: [a], in: [b]}], then: required}"),
        me("{}"), me("{notImage: [a]}"), me("{init: [a], notImage: [a]}"), me("{init: []}"), me("{sidecar: ''}"), me("{sidecar: true}"), me("{sidecar: 1}"), me("{sidecar: {prefix: ''}}"), me("{sidecar: {suffix: a}}"), me("{sidecar: [a]}"), me("{sidecar: {prefix: 1}}"), me("{when: [], sidecar: a}"), me("{when: [{podLabel: a, in: [b]}, {podLabel: a, exists: false}], sidecar: a}"), me("{option: a, sidecar: a}"), me("{sidecar: a, notImage: []}"),
        c("injectors:\n- preset: istio\n  webhook: ''\n"), c("injectors:\n- preset: istio\n  webhook: '*'\n"), c("injectors:\n- preset: istio\n  webhook: '**a'\n"), c("injectors:\n- preset: istio\n  webhook: 'a*'\n"), c("injectors:\n- {}\n"), c("injectors:\n- name: A\n"), c("injectors:\n- name: a\n"), c("injectors:\n- name: a\n  service: {namespace: a, name: a}\n"),c("injectors:\n- name: a\n  webhook: a\n  service: {namespace: a, name: a}\n"),
        c("injectors:\n-\n"), c("injectors:\n- ~\n"), c("injectors: &a\n- preset: linkerd\nexcludedNamespaces: *a\n"),
        format!("a: {}", "[".repeat(10_000)), format!("a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"),
        c(&format!("injectors: {}", "[".repeat(10_000))),
        c(&format!("injectors:\n{}", "- {preset: linkerd}\n".repeat(500_000))),
    ];
    for b in bodies { let shown: String = b.replace("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\n", "").chars().rev().take(90).collect::<Vec<_>>().into_iter().rev().collect(); let t = std::time::Instant::now(); let e = error(&b); println!("{:?}\n    => {}  {:?}", shown, e, t.elapsed()); }
}
