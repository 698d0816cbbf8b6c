{{- define "tollgate.name" -}}
{{- printf "%s-tollgate" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: tollgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* What the chart needs lies over what the operator gives: `include` is a list of the program's own. */ -}}
{{- define "tollgate.config" -}}
server:
  listen: [{ address: "0.0.0.0:8080" }]
  shutdown: { grace: {{ .Values.gracePeriodSeconds }}s }
admin: { listen: "0.0.0.0:9080" }
store: { path: /var/lib/tollgate/tollgate.db }
include: operator.yaml
{{- end -}}
