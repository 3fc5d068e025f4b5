{{/* Where pods may be, and how soon they leave a lost node. */}}
{{- define "meshgate.placement" -}}
{{- with .Values.scheduling -}}
nodeSelector:
  {{- toYaml (merge (dict "kubernetes.io/os" "linux") .nodeSelector) | nindent 2 }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
tolerations:
{{- range list "not-ready" "unreachable" }}
- key: node.kubernetes.io/{{ . }}
  operator: Exists
  effect: NoExecute
  tolerationSeconds: {{ $.Values.scheduling.lostNodeSeconds }}
{{- end }}
{{- range .startupTaints }}
- key: {{ . }}
  operator: Exists
{{- end }}
{{- with .tolerations }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Required over nodes, preferred over zones: (list . COMPONENT). Each rollout counts its own pods only, or
none could be added where every node has one. Nodes that carry a taint which is not tolerated are not
counted: a lost one, empty, would keep the others from taking two.
*/}}
{{- define "meshgate.spread" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 -}}
topologySpreadConstraints:
{{- range list (list "kubernetes.io/hostname" "DoNotSchedule") (list "topology.kubernetes.io/zone" "ScheduleAnyway") }}
- topologyKey: {{ index . 0 }}
  whenUnsatisfiable: {{ index . 1 }}
  maxSkew: 1
  {{- if and (eq (index . 1) "DoNotSchedule") (gt (int $root.Values.scheduling.minNodes) 1) }}
  minDomains: {{ $root.Values.scheduling.minNodes }}
  {{- end }}
  nodeAffinityPolicy: Honor
  nodeTaintsPolicy: Honor
  labelSelector:
    matchLabels:
      {{- include "meshgate.selector" (dict "component" $component) | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{/* (list . NAME COMPONENT REPLICAS) */}}
{{- define "meshgate.disruptionBudget" -}}
{{- $root := index . 0 }}
{{- if and $root.Values.disruptionBudget.enabled (gt (int (index . 3)) 1) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "meshgate.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ index . 2 }}
spec:
  maxUnavailable: 1
  # A pod that is not ready serves no request, so it may always be evicted.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "meshgate.selector" (dict "component" (index . 2)) | nindent 6 }}
{{- end }}
{{- end }}
