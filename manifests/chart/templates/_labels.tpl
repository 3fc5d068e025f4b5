{{/* Labels of every object. Helm itself adds app.kubernetes.io/managed-by; by part-of
`meshgate uninstall --dry-run` finds what an installation consists of. */}}
{{- define "meshgate.labels" -}}
app.kubernetes.io/name: meshgate
app.kubernetes.io/part-of: meshgate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* What selects the pods of a component: (dict "component" "serve"). Never changes: a selector is immutable. */}}
{{- define "meshgate.selector" -}}
app.kubernetes.io/name: meshgate
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* A subject of a RoleBinding, in the release's namespace: (list . "meshgate-control"). */}}
{{- define "meshgate.account" -}}
kind: ServiceAccount
name: {{ index . 1 }}
namespace: {{ (index . 0).Release.Namespace }}
{{- end }}
