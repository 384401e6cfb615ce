"""The audit of session files: what compactions of other programs dropped, what that cost, and what Clew would keep.

Reads files of every format that the importers know; asks no model and no network, and changes nothing.
"""

from clew.audit.measure import Audit, AuditedCompaction, AuditedSession, DroppedFact, audit_session, audit_sources

__all__ = ["Audit", "AuditedCompaction", "AuditedSession", "DroppedFact", "audit_session", "audit_sources"]
