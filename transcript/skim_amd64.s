#include "textflag.h"

// func lineEndBits(bits *uint64, p *byte, blocks int)
//
// SSE2, which every amd64 has: sixteen bytes are compared at a time, and the top bits of the results gathered.
TEXT ·lineEndBits(SB), NOSPLIT, $0-24
	MOVQ bits+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ blocks+16(FP), CX
	MOVQ $0x0A0A0A0A0A0A0A0A, AX
	MOVQ AX, X0
	PUNPCKLQDQ X0, X0

next:
	TESTQ CX, CX
	JZ    done
	MOVOU 0(SI), X1
	MOVOU 16(SI), X2
	MOVOU 32(SI), X3
	MOVOU 48(SI), X4
	PCMPEQB X0, X1
	PCMPEQB X0, X2
	PCMPEQB X0, X3
	PCMPEQB X0, X4
	PMOVMSKB X1, AX
	PMOVMSKB X2, BX
	PMOVMSKB X3, DX
	PMOVMSKB X4, R8
	SHLQ $16, BX
	SHLQ $32, DX
	SHLQ $48, R8
	ORQ  BX, AX
	ORQ  DX, R8
	ORQ  R8, AX
	MOVQ AX, (DI)
	ADDQ $64, SI
	ADDQ $8, DI
	DECQ CX
	JMP  next

done:
	RET
