#include "textflag.h"

// func planesOf(out *planes, p *byte, blocks int, kinds *kindTables)
//
// Y0 is half a block. The halves of its bytes select from the tables in Y8 to Y11, and the bits of what they select are
// gathered into planes of 32 bits.
TEXT ·planesOf(SB), NOSPLIT, $0-32
	MOVQ out+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ blocks+16(FP), CX
	MOVQ kinds+24(FP), DX
	VMOVDQU 0(DX), Y8
	VMOVDQU 32(DX), Y9
	VMOVDQU 64(DX), Y10
	VMOVDQU 96(DX), Y11
	VMOVDQU 128(DX), Y12
	VMOVDQU 160(DX), Y13
	MOVQ $0x0F0F0F0F0F0F0F0F, AX
	MOVQ AX, X15
	VPBROADCASTQ X15, Y15
	VPXOR Y14, Y14, Y14
	SHLQ $1, CX

half:
	VMOVDQU (SI), Y0
	VPAND   Y15, Y0, Y1
	VPSRLW  $4, Y0, Y2
	VPAND   Y15, Y2, Y2
	VPSHUFB Y1, Y8, Y3
	VPSHUFB Y2, Y9, Y4
	VPAND   Y3, Y4, Y3
	VPSHUFB Y1, Y10, Y5
	VPSHUFB Y2, Y11, Y6
	VPAND   Y5, Y6, Y5

	VPSLLW $1, Y3, Y4
	VPMOVMSKB Y4, AX
	MOVL AX, 0(DI)
	VPMOVMSKB Y3, BX
	MOVL BX, 8(DI)
	VPCMPEQB 256(DX), Y0, Y4
	VPMOVMSKB Y4, R8
	MOVL R8, 16(DI)
	VPAND Y12, Y3, Y4
	VPCMPEQB Y14, Y4, Y4
	VPMOVMSKB Y4, R9
	MOVL R9, 24(DI)
	VPAND Y13, Y5, Y4
	VPCMPEQB Y14, Y4, Y4
	VPMOVMSKB Y4, AX
	MOVL AX, 32(DI)
	VPAND 192(DX), Y5, Y4
	VPCMPEQB Y14, Y4, Y4
	VPMOVMSKB Y4, BX
	MOVL BX, 40(DI)
	VPAND 224(DX), Y5, Y4
	VPCMPEQB Y14, Y4, Y4
	VPMOVMSKB Y4, R8
	MOVL R8, 48(DI)

	// The planes of the second half follow those of the first; then comes the next block.
	ADDQ $32, SI
	ADDQ $4, DI
	TESTQ $1, CX
	JZ    again
	ADDQ $48, DI

again:
	DECQ CX
	JNZ  half
	VZEROUPPER
	RET

// func cpuid(leaf, sub uint32) (a, b, c, d uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	MOVL DX, d+20(FP)
	RET

// func xgetbv() (low, high uint32)
TEXT ·xgetbv(SB), NOSPLIT, $0-8
	MOVL $0, CX
	XGETBV
	MOVL AX, low+0(FP)
	MOVL DX, high+4(FP)
	RET
